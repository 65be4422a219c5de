"""Keys and values in JSON: keys of a request to bytes, bytes of an answer to JSON values."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson

from millrace.avro_branches import without_branch
from millrace.errors import SerializationError
from millrace.json_numbers import loads
from millrace.queries.refusals import QueryRefusedError, Reason
from millrace.queries.requests import BASE64
from millrace.serdes import (
    BytesSerde,
    DoubleSerde,
    FloatSerde,
    IntegerSerde,
    JsonSerde,
    LongSerde,
    Serde,
    ShortSerde,
    StringSerde,
)
from millrace.serdes.uuids import UUIDSerde


def key_bytes(text: str, serde: Serde | None) -> bytes:
    """Returns the bytes of the key in a request.

    Args:
        text: the key: a string as it is, a number as its digits, a UUID as usual, anything else as JSON; after
            ``base64:`` the bytes themselves, for every serde.
        serde: the store's; ``None`` for a store of bytes, whose keys need ``base64:``.

    Raises:
        QueryRefusedError: the text is no such key.
    """
    try:
        if text.startswith(BASE64):
            return base64.b64decode(text.removeprefix(BASE64), validate=True)
        if serde is None or isinstance(serde, BytesSerde):
            raise ValueError(f"the store's keys are bytes: write them as {BASE64}...")
        if isinstance(serde, StringSerde):
            return serde.serialize(text)
        if isinstance(serde, ShortSerde | IntegerSerde | LongSerde):
            return serde.serialize(int(text))
        if isinstance(serde, FloatSerde | DoubleSerde):
            return serde.serialize(float(text))
        return serde.serialize(UUID(text) if isinstance(serde, UUIDSerde) else loads(text))
    except (ValueError, binascii.Error, orjson.JSONDecodeError, SerializationError) as error:
        raise QueryRefusedError(
            Reason.BAD_REQUEST,
            f"{text!r} is no key of this store: {error}",
            remedy=f"write strings and numbers as they are, other keys as JSON, or the key's bytes as {BASE64}...",
        ) from error


def prefix_bytes(text: str, serde: Serde | None) -> bytes:
    """Returns the bytes of a prefix of keys: text for text keys, ``base64:`` for others.

    Raises:
        QueryRefusedError: the store's keys have another serde, and the prefix is not given in bytes.
    """
    if text.startswith(BASE64) or isinstance(serde, StringSerde):
        return key_bytes(text, serde)
    raise QueryRefusedError(
        Reason.BAD_REQUEST,
        "A prefix of keys that are no text is one of bytes.",
        remedy=f"write it as {BASE64}...",
    )


def json_value(data: bytes, serde: Serde | None) -> Any:
    """Returns a key or value as JSON, read by the serde; bytes as an object with ``base64``.

    What the serde cannot read is returned as bytes, too, with the ``problem``: one entry does not hide the others.
    """
    if serde is None:
        return _base64(data)
    try:
        return _plain(serde.deserialize(data), exact=isinstance(serde, JsonSerde))
    except SerializationError as error:
        return {**_base64(data), "problem": error.message}


def _plain(value: Any, *, exact: bool) -> Any:  # noqa: PLR0911 - one for each kind of value
    """Returns a value in types of JSON, including bytes and non-finite numbers anywhere in it.

    Args:
        value: the value.
        exact: whether its decimals are numbers, as they are in JSON; those of other serdes are text.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _base64(bytes(value))
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): _plain(item, exact=exact) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, exact=exact) for item in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if exact and isinstance(value, Decimal):
        return value
    value = without_branch(value)
    return orjson.loads(orjson.dumps(value, default=str, option=orjson.OPT_SERIALIZE_NUMPY))


def _base64(data: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(data).decode()}
