"""Python objects to bare Avro, each checked against its type, without a choice that the value does not make itself."""

from __future__ import annotations

import reprlib
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from millrace.avro_branches import branch_of
from millrace.serdes.avro_defaults import default_maker
from millrace.serdes.avro_logical import EXACT, LOOSE, to_raw
from millrace.serdes.avro_schema import MISSING, AvroField, AvroType, labels_of
from millrace.serdes.avro_unions import decided_types
from millrace.serdes.times import BeyondDatetime

Write = Callable[[bytearray, Any], int]
"""Appends a value's bytes and says how well it fits; raises ``ValueError``, with the path, where it does not."""

_shown = reprlib.repr
_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")
_NO_VALUE = object()


def writer_of(kind: AvroType) -> Write:
    """Returns a function that writes values of a type.

    Raises:
        SchemaError: a default inside it is not of its field's type.
    """
    return _Writers().of(kind)


class _Writers:
    def __init__(self) -> None:
        self._named: dict[int, Write] = {}
        self._begun: set[int] = set()

    def of(self, kind: AvroType) -> Write:
        if not kind.name:
            return self._made(kind)
        key = id(kind)
        if key in self._begun and key not in self._named:

            def later(buffer: bytearray, value: Any) -> int:
                return self._named[key](buffer, value)

            return later
        if key not in self._named:
            self._begun.add(key)
            self._named[key] = self._made(kind)
        return self._named[key]

    def _made(self, kind: AvroType) -> Write:
        match kind.kind:
            case "union":
                return _union(kind, [self.of(branch) for branch in kind.branches])
            case "record":
                return _record(kind, [(field, self.of(field.type)) for field in kind.fields])
            case "array":
                return _array(self.of(kind.item))
            case "map":
                return _map(self.of(kind.item))
        plain = _SCALARS[kind.kind](kind)
        convert = to_raw(kind)
        if convert is None:
            return plain

        def write(buffer: bytearray, value: Any) -> int:
            try:
                raw, fit = convert(value)
            except OverflowError as error:
                raise ValueError(f" is {_shown(value)}: {error}") from error
            plain(buffer, raw)
            return fit

        return write


def write_long(buffer: bytearray, number: int) -> None:
    """Appends a number of at most 64 bits: zig-zag, seven bits a byte."""
    left = (number << 1) ^ (number >> 63)
    while left > 0x7F:
        buffer.append(left & 0x7F | 0x80)
        left >>= 7
    buffer.append(left)


def _null(_: AvroType) -> Write:
    def write(_: bytearray, value: Any) -> int:
        if value is not None:
            raise ValueError(f" is {_shown(value)}, not null")
        return EXACT

    return write


def _boolean(_: AvroType) -> Write:
    def write(buffer: bytearray, value: Any) -> int:
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f" is {_shown(value)}, not a boolean")
        buffer.append(1 if value else 0)
        return EXACT

    return write


def _integer(kind: AvroType) -> Write:
    limit = 2**31 if kind.kind == "int" else 2**63
    what = kind.kind

    def write(buffer: bytearray, value: Any) -> int:
        number, fit = value, EXACT
        if type(value) is not int:
            if not isinstance(value, int | np.integer) or isinstance(value, bool):
                raise ValueError(f" is {_shown(value)}, not {_article(what)}")
            number, fit = int(value), LOOSE if isinstance(value, BeyondDatetime) else EXACT
        if not -limit <= number < limit:
            raise ValueError(f" is {_shown(value)}, beyond {_article(what)}")
        write_long(buffer, number)
        return fit

    return write


def _floating(kind: AvroType) -> Write:
    form = _FLOAT if kind.kind == "float" else _DOUBLE
    what = kind.kind

    def write(buffer: bytearray, value: Any) -> int:
        if isinstance(value, float | np.floating):
            number, fit = float(value), EXACT
        elif isinstance(value, int | np.integer) and not isinstance(value, bool):
            number, fit = _exact(int(value), what), LOOSE
        else:
            raise ValueError(f" is {_shown(value)}, not {_article(what)}")
        try:
            buffer += form.pack(number)
        except OverflowError as error:
            raise ValueError(f" is {_shown(value)}, beyond a float") from error
        return fit

    return write


def _exact(number: int, what: str) -> float:
    try:
        converted = float(number) if what == "double" else float(np.float32(float(number)))
    except OverflowError:
        converted = float("inf")
    if converted != number:
        raise ValueError(f" is {_shown(number)}, which {_article(what)} does not hold exactly")
    return converted


def _bytes(_: AvroType) -> Write:
    def write(buffer: bytearray, value: Any) -> int:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise ValueError(f" is {_shown(value)}, not bytes")
        write_long(buffer, len(value))
        buffer += value
        return EXACT

    return write


def _string(_: AvroType) -> Write:
    def write(buffer: bytearray, value: Any) -> int:
        if not isinstance(value, str):
            raise ValueError(f" is {_shown(value)}, not a string")
        try:
            data = value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f" is {_shown(value)}, which has no UTF-8 form: {error.reason}") from error
        write_long(buffer, len(data))
        buffer += data
        return EXACT

    return write


def _fixed(kind: AvroType) -> Write:
    size, name = kind.size, kind.name

    def write(buffer: bytearray, value: Any) -> int:
        if not isinstance(value, bytes | bytearray | memoryview) or len(value) != size:
            raise ValueError(f" is {_shown(value)}, not the {size} bytes of {name}")
        buffer += value
        return EXACT

    return write


def _enum(kind: AvroType) -> Write:
    numbers = {symbol: number for number, symbol in reversed([*enumerate(kind.symbols)])}
    name = kind.name

    def write(buffer: bytearray, value: Any) -> int:
        number = numbers.get(value) if isinstance(value, str) else None
        if number is None:
            raise ValueError(f" is {_shown(value)}, none of the symbols of {name}")
        write_long(buffer, number)
        return EXACT

    return write


_SCALARS: dict[str, Callable[[AvroType], Write]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _integer,
    "long": _integer,
    "float": _floating,
    "double": _floating,
    "bytes": _bytes,
    "string": _string,
    "fixed": _fixed,
    "enum": _enum,
}


def _array(item: Write) -> Write:
    def write(buffer: bytearray, value: Any) -> int:
        if not isinstance(value, Sequence) or isinstance(value, str | bytes | bytearray | memoryview):
            raise ValueError(f" is {_shown(value)}, not an array")
        fit, index = EXACT, -1
        if value:
            write_long(buffer, len(value))
            try:
                for each in value:
                    index += 1
                    fit = max(fit, item(buffer, each))
            except ValueError as error:
                raise ValueError(f"[{index}]{error}") from error
        buffer.append(0)
        return fit

    return write


def _map(item: Write) -> Write:
    text = _string(AvroType("string"))

    def write(buffer: bytearray, value: Any) -> int:
        if not isinstance(value, Mapping):
            raise ValueError(f" is {_shown(value)}, not a map")
        fit, key = EXACT, None
        if value:
            write_long(buffer, len(value))
            try:
                for key, each in value.items():
                    text(buffer, key)
                    fit = max(fit, item(buffer, each))
            except ValueError as error:
                raise ValueError(f"[{_shown(key)}]{error}") from error
        buffer.append(0)
        return fit

    return write


def _record(kind: AvroType, fields: list[tuple[AvroField, Write]]) -> Write:
    plan = [(field.name, write, _written_default(field, write)) for field, write in fields]
    known = frozenset(field.name for field, _ in fields)
    label = kind.name

    def write(buffer: bytearray, value: Any) -> int:
        if not isinstance(value, Mapping):
            raise ValueError(f" is {_shown(value)}, not a record {label}")
        fit, name = EXACT, ""
        try:
            for name, write_field, default in plan:
                own = value.get(name, _NO_VALUE)
                if own is not _NO_VALUE:
                    fit = max(fit, write_field(buffer, own))
                elif default is None:
                    raise ValueError(" is missing and has no default")
                else:
                    fit = LOOSE
                    buffer += default()
        except ValueError as error:
            raise ValueError(f".{name}{error}") from error
        if not known.issuperset(value):
            unknown = sorted(map(str, set(value) - known))
            raise ValueError(f" has the fields {unknown}, which {label} has not")
        return fit

    return write


def _written_default(field: AvroField, write: Write) -> Callable[[], bytes] | None:
    if field.default is MISSING:
        return None
    make = default_maker(field.type, field.default, "objects")
    known: list[bytes] = []

    def default() -> bytes:
        # Made at the first use: a recursive type's writer is not complete before.
        if not known:
            buffer = bytearray()
            write(buffer, make())
            known.append(bytes(buffer))
        return known[0]

    return default


def _union(union: AvroType, writers: list[Write]) -> Write:
    labels = labels_of(union)
    by_label = {label: index for index, label in enumerate(labels)}
    short = [label.rpartition(".")[2] for label in labels]
    by_name = {name: index for index, name in enumerate(short) if short.count(name) == 1}
    decided = decided_types(union)
    choices = ", ".join(labels)

    def write(buffer: bytearray, value: Any) -> int:
        index = decided.get(type(value))
        if index is not None:
            write_long(buffer, index)
            return writers[index](buffer, value)
        named = branch_of(value)
        if type(value) is tuple and len(value) == 2 and value[0] in by_label:
            named, value = value
        if named is not None:
            index = by_label.get(named, by_name.get(named.rpartition(".")[2]))
        if index is not None:
            write_long(buffer, index)
            return writers[index](buffer, value)
        fit, index, data = _best(value)
        write_long(buffer, index)
        buffer += data
        return fit

    def _best(value: Any) -> tuple[int, int, bytearray]:
        fitting: list[tuple[int, int, bytearray]] = []
        problem = ""
        for index, own in enumerate(writers):
            data = bytearray()
            try:
                fitting.append((own(data, value), index, data))
            except ValueError as error:
                # A misfit inside of the branch says more than that it is not the branch.
                problem = str(error) if not problem or str(error)[:1] in ".[" else problem
        if not fitting:
            raise ValueError(problem if len(writers) == 1 else f" is none of {choices}: it{problem}")
        best = min(fit for fit, _, _ in fitting)
        chosen = [each for each in fitting if each[0] == best]
        if len(chosen) > 1:
            possible = " and ".join(labels[index] for _, index, _ in chosen)
            raise ValueError(
                f" is {_shown(value)}, which could be {possible} of the union: pass a pair "
                f"({labels[chosen[0][1]]!r}, value) that names the branch"
            )
        return chosen[0]

    return write


def _article(kind: str) -> str:
    return f"an {kind}" if kind == "int" else f"a {kind}"
