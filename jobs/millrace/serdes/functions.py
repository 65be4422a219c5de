"""A serde made of two functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from millrace.callables import refuse_async
from millrace.errors import ConfigurationError, SerializationError, error_not_of_user_code
from millrace.serdes.per_value import PerValueSerde

Serializer = Callable[[Any], bytes]
"""``value -> bytes``; never called with ``None``."""
Deserializer = Callable[[bytes], Any]
"""``bytes -> value``; never called with ``None``."""


@dataclass(frozen=True)
class FunctionSerde(PerValueSerde):
    """See :func:`serde_from`."""

    serializer: Serializer
    deserializer: Deserializer

    def __post_init__(self) -> None:
        for what, function in (("serializer", self.serializer), ("deserializer", self.deserializer)):
            if not callable(function):
                raise ConfigurationError(
                    f"The {what} is {function!r}, which is not callable.", remedy="pass a function of one argument"
                )
            refuse_async(function, what=what, error=ConfigurationError)

    def serialize(self, value: Any) -> bytes:
        """Returns what the serializer makes of ``value``.

        Raises:
            SerializationError: the serializer raised, or did not return bytes.
        """
        try:
            data = self.serializer(value)
        except SerializationError:
            raise
        except Exception as error:
            own = error_not_of_user_code(error)
            if own is not None:
                raise own from None
            raise SerializationError(
                f"The serializer {_name(self.serializer)} failed at {value!r}: {type(error).__name__}: {error}.",
                remedy="fix the serializer, or correct the value",
            ) from error
        if isinstance(data, bytes):
            return data
        if isinstance(data, bytearray | memoryview):
            return bytes(data)
        raise SerializationError(
            f"The serializer {_name(self.serializer)} returned {data!r} for {value!r}, which is not bytes.",
            remedy="return bytes; nulls never reach a serializer",
        )

    def deserialize(self, data: bytes) -> Any:
        """Returns what the deserializer makes of ``data``.

        Raises:
            SerializationError: the deserializer raised.
        """
        try:
            return self.deserializer(data)
        except SerializationError:
            raise
        except Exception as error:
            own = error_not_of_user_code(error)
            if own is not None:
                raise own from None
            raise SerializationError(
                f"The deserializer {_name(self.deserializer)} failed at {len(data)} bytes: "
                f"{type(error).__name__}: {error}.",
                remedy="fix the deserializer or the producer, or let the deserialization handler continue",
            ) from error


def serde_from(serializer: Serializer, deserializer: Deserializer) -> FunctionSerde:
    """Returns a serde of two functions, each called once a value; the values have no Arrow type.

    Example::

        celsius = serde_from(lambda value: b"%.1f" % value, float)

    Args:
        serializer: ``value -> bytes``. What it raises becomes a ``SerializationError``.
        deserializer: ``bytes -> value``; the same.

    Raises:
        ConfigurationError: one of them is not callable.

    Source: ``org.apache.kafka.common.serialization.Serdes.serdeFrom``.
    """
    return FunctionSerde(serializer, deserializer)


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", None) or repr(function)
