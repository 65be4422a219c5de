"""Avro schemas together with bytes that they write, made without any library of Avro."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Encoding = st.SearchStrategy[bytes]
_INTS = st.integers(-(2**31), 2**31 - 1) | st.integers(-3, 3)
_LONGS = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)


def long_bytes(number: int) -> bytes:
    """A number as Avro writes it."""
    left = number * 2 if number >= 0 else -number * 2 - 1
    encoded = b""
    while left > 127:
        encoded += bytes([left % 128 + 128])
        left //= 128
    return encoded + bytes([left])


def bytes_bytes(data: bytes) -> bytes:
    """Bytes or text in UTF-8 as Avro writes them."""
    return long_bytes(len(data)) + data


def _integers(numbers: st.SearchStrategy[int]) -> Encoding:
    return numbers.map(long_bytes)


def _blocks(item: Encoding) -> Encoding:
    return st.lists(item, max_size=3).map(
        lambda items: (long_bytes(len(items)) + b"".join(items) if items else b"") + b"\0"
    )


_scalars: list[tuple[Any, Encoding]] = [
    ("null", st.just(b"")),
    ("boolean", st.sampled_from([b"\0", b"\1"])),
    ("int", _integers(_INTS)),
    ("long", _integers(_LONGS)),
    ("float", st.floats(width=32, allow_nan=False).map(lambda number: struct.pack("<f", number))),
    ("double", st.floats(allow_nan=False).map(lambda number: struct.pack("<d", number))),
    ("bytes", st.binary(max_size=4).map(bytes_bytes)),
    ("string", st.text(max_size=4).map(lambda text: bytes_bytes(text.encode()))),
    *(
        ({"type": "int", "logicalType": logical}, _integers(_INTS | st.integers(0, 86_400_000)))
        for logical in ("date", "time-millis", "unknown")
    ),
    *(
        ({"type": "long", "logicalType": logical}, _integers(_LONGS | st.integers(-(2**45), 2**45)))
        for logical in (
            "time-micros",
            "timestamp-millis",
            "timestamp-micros",
            "timestamp-nanos",
            "local-timestamp-millis",
            "local-timestamp-micros",
            "local-timestamp-nanos",
        )
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
        st.binary(max_size=5).map(bytes_bytes),
    ),
    (
        {"type": "string", "logicalType": "uuid"},
        (st.uuids().map(str) | st.text(max_size=4)).map(str.encode).map(bytes_bytes),
    ),
]


def _label(schema: Any) -> str:
    return schema if isinstance(schema, str) else schema.get("name", schema["type"])


class _Names:
    """Full names that no other type of the schema has."""

    def __init__(self) -> None:
        self._count = 0

    def next(self, namespace: str) -> dict[str, str]:
        self._count += 1
        return {"name": f"T{self._count}", "namespace": namespace}


@st.composite
def schemas(draw: Callable[[Any], Any], depth: int = 3) -> tuple[Any, Encoding]:
    """A schema and a strategy of what it writes."""
    return _any(draw, _Names(), depth)


def _any(draw: Callable[[Any], Any], names: _Names, depth: int, *, union: bool = True) -> tuple[Any, Encoding]:
    kinds = ["scalar"] * 2 + ["enum", "fixed"]
    if depth:
        kinds += ["record", "record", "array", "map", *(["union"] * 4 if union else [])]
    kind = draw(st.sampled_from(kinds))
    if kind == "scalar":
        schema, encoding = draw(st.sampled_from(_scalars))
        return schema, encoding
    name = names.next(draw(st.sampled_from(["a", "b.c"])))
    if kind == "enum":
        # Some symbols are text of other branches, some are not.
        return {"type": "enum", **name, "symbols": ["A", "B"]}, st.sampled_from([b"\0", b"\2"])
    if kind == "fixed":
        if draw(st.booleans()):
            schema = {"type": "fixed", **name, "size": 3, "logicalType": "decimal", "precision": 4, "scale": 1}
            return schema, st.binary(min_size=3, max_size=3)
        return {"type": "fixed", **name, "size": 2}, st.binary(min_size=2, max_size=2)
    if kind == "record":
        fields = [_any(draw, names, depth - 1) for _ in range(draw(st.integers(0, 3)))]
        schema = {
            "type": "record",
            **name,
            "fields": [{"name": f"f{n}", "type": each} for n, (each, _) in enumerate(fields)],
        }
        return schema, st.tuples(*(encoding for _, encoding in fields)).map(b"".join)
    if kind == "array":
        items, encoding = _any(draw, names, depth - 1)
        return {"type": "array", "items": items}, _blocks(encoding)
    if kind == "map":
        values, encoding = _any(draw, names, depth - 1)
        pair = encoding.map(lambda value: bytes_bytes(b"k") + value)
        return {"type": "map", "values": values}, st.lists(pair, max_size=1).map(
            lambda pairs: (b"\2" + pairs[0] if pairs else b"") + b"\0"
        )
    branches = [_any(draw, names, depth - 1, union=False) for _ in range(draw(st.integers(1, 4)))]
    # Of types without a name a union has one each.
    distinct = {_label(each): (each, encoding) for each, encoding in branches}
    chosen = list(distinct.values())
    numbered = [st.tuples(st.just(long_bytes(n)), encoding).map(b"".join) for n, (_, encoding) in enumerate(chosen)]
    return [each for each, _ in chosen], st.one_of(numbered)
