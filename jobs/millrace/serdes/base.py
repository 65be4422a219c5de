"""The serde protocol: between the bytes of a topic or store and values, per value and in columns."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import pyarrow as pa


@runtime_checkable
class Serde(Protocol):
    """Reads and writes values of one type. Null bytes are null values in both directions and never reach a serde.

    A serde that has an Arrow type works on whole columns; one whose ``arrow_type`` is ``None`` works per value only,
    and the task calls ``serialize`` and ``deserialize`` for each.
    """

    @property
    def arrow_type(self) -> pa.DataType | None:
        """The type of a decoded column, or ``None`` where values have no fixed type."""

    def serialize(self, value: Any) -> bytes:
        """Returns the bytes of one value.

        Raises:
            SerializationError: the value is not of this serde's type.
        """

    def deserialize(self, data: bytes) -> Any:
        """Returns the value in ``data``.

        Raises:
            SerializationError: the bytes are not what this serde writes.
        """

    def serialize_column(self, values: pa.Array) -> pa.Array:
        """Returns ``values`` (of ``arrow_type`` or castable to it) as a binary array; nulls stay null.

        Raises:
            SerializationError: the values do not fit.
        """

    def deserialize_column(self, data: pa.Array) -> pa.Array:
        """Returns a binary array as an array of ``arrow_type``; nulls stay null.

        Raises:
            SerializationError: at least one value is malformed; the caller finds which by ``deserialize``.
        """


@runtime_checkable
class WindowedSerializer(Protocol):
    """A protocol for a serde of :class:`~millrace.serdes.Windowed` keys that can also write the key without its window.

    Where it has this, the windows of a key go to one partition of an output topic, as those of the built-in serdes do;
    otherwise the hash of all its bytes decides. Source: ``WindowedSerializer#serializeBaseKey``.
    """

    def serialize_base_key(self, value: Any) -> bytes:
        """Returns the bytes of the key in a windowed key.

        Raises:
            SerializationError: it is no windowed key, or its key does not fit.
        """
