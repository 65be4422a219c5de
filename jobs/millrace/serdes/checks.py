"""The check that something is a serde; its message says what to pass instead."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from millrace.callables import refuse_async
from millrace.errors import ConfigurationError, MillraceError
from millrace.serdes.base import Serde
from millrace.serdes.names import NAMED_SERDES

_MEMBERS = ("arrow_type", "serialize", "deserialize", "serialize_column", "deserialize_column")


def is_serde(value: Any) -> bool:
    """Returns whether it is an object with the methods of a serde; the class of one is not."""
    return not isinstance(value, type) and (_is_serde_class(value.__class__) or isinstance(value, Serde))


@lru_cache(maxsize=256)
def _is_serde_class(kind: type) -> bool:
    """Whether a class has all that a serde has: asked of an object, the protocol looks at every member again."""
    return all(getattr(kind, name, None) is not None for name in _MEMBERS)


def check_serde(value: Any, *, what: str, error: type[MillraceError] = ConfigurationError) -> None:
    """Refuses what is no serde.

    Args:
        value: what the user passed.
        what: the argument and what it belongs to, for the message.
        error: what is raised.

    Raises:
        MillraceError: of the kind ``error``: it is no object with the methods of a serde, or its methods are async.
    """
    if not is_serde(value):
        shown = f"the class {value.__name__}" if isinstance(value, type) else f"{value!r} ({type(value).__name__})"
        raise error(f"{what} is {shown}, and a serde is expected.", remedy=serde_remedy(value))
    for method in ("serialize", "deserialize"):
        refuse_async(getattr(value, method), what=f"method {method}() of the serde {type(value).__name__}", error=error)


def serde_remedy(value: Any) -> str:
    """Returns what to pass instead of ``value``."""
    if isinstance(value, type) and hasattr(value, "serialize"):
        return f"pass an object of it: {value.__name__}()"
    if isinstance(value, str) and value in NAMED_SERDES:
        return (
            f"pass {type(NAMED_SERDES[value]).__name__}(); names are for default.key.serde and default.value.serde of "
            "the configuration"
        )
    return "pass an object such as StringSerde() or JsonSerde(), or make one of two functions with serde_from()"
