"""The serde that a setting names: a known name, a class of Kafka's ``Serdes``, or one of the user's own."""

from __future__ import annotations

import importlib
import re
from typing import Any

from millrace.errors import ConfigurationError
from millrace.serdes.base import Serde
from millrace.serdes.checks import check_serde, is_serde
from millrace.serdes.names import serde_by_name

_KAFKA_NAMES = {
    "ByteArray": "bytes",
    "Bytes": "bytes",
    "String": "string",
    "Short": "short",
    "Integer": "integer",
    "Long": "long",
    "Float": "float",
    "Double": "double",
    "UUID": "uuid",
}
_KAFKA_CLASS = re.compile(r"(?:org\.apache\.kafka\.common\.serialization\.)?Serdes[$.](\w+?)(?:Serde)?")
_OWN = re.compile(r"[\w.]+:\w+")


def check_serde_name(name: str) -> None:
    """Refuses what :func:`serde_named` would not know. Imports nothing.

    Raises:
        ConfigurationError: it is no known name and not of the form ``package.module:name``.
    """
    if not _OWN.fullmatch(name):
        serde_by_name(_known_name(name))


def serde_named(name: str) -> Serde:
    """Returns the serde that a setting names.

    Args:
        name: one of :data:`NAMED_SERDES`, a class of Kafka's ``Serdes`` (``Serdes$StringSerde``, with its package or
            without), or ``package.module:name`` of a serde, or of a class or function without arguments that makes one.

    Raises:
        ConfigurationError: there is none of that name, or it is no serde.
    """
    if not _OWN.fullmatch(name):
        return serde_by_name(_known_name(name))
    module, _, attribute = name.partition(":")
    try:
        found: Any = getattr(importlib.import_module(module), attribute)
        made: Any = found if is_serde(found) else found()
    except Exception as error:
        raise ConfigurationError(
            f"The serde {name!r} cannot be made: {type(error).__name__}: {error}.",
            remedy="name a serde, or a class or function without arguments that makes one, as package.module:name",
        ) from error
    check_serde(made, what=f"What {name!r} gives")
    serde: Serde = made
    return serde


def _known_name(name: str) -> str:
    kafka = _KAFKA_CLASS.fullmatch(name)
    return name if kafka is None else _KAFKA_NAMES.get(kafka[1], name)
