"""The serdes with a name, for configuration and command lines."""

from __future__ import annotations

import difflib

from millrace.errors import ConfigurationError
from millrace.serdes.base import Serde
from millrace.serdes.json import JsonSerde
from millrace.serdes.numbers import DoubleSerde, FloatSerde, IntegerSerde, LongSerde, ShortSerde
from millrace.serdes.primitives import BytesSerde, StringSerde
from millrace.serdes.uuids import UUIDSerde

NAMED_SERDES: dict[str, Serde] = {
    "bytes": BytesSerde(),
    "string": StringSerde(),
    "short": ShortSerde(),
    "integer": IntegerSerde(),
    "long": LongSerde(),
    "float": FloatSerde(),
    "double": DoubleSerde(),
    "uuid": UUIDSerde(),
    "json": JsonSerde(),
}
"""What :func:`serde_by_name` knows."""


def serde_by_name(name: str) -> Serde:
    """Returns the serde called ``name`` in configuration.

    Raises:
        ConfigurationError: there is none; the nearest known name is given.
    """
    if name in NAMED_SERDES:
        return NAMED_SERDES[name]
    nearest = difflib.get_close_matches(name, sorted(NAMED_SERDES), n=1, cutoff=0.0)[0]
    raise ConfigurationError(
        f"There is no serde {name!r}; the nearest known one is {nearest!r}.",
        remedy=f"use one of {', '.join(NAMED_SERDES)}; or package.module:name of your own",
    )
