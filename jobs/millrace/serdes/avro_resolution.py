"""The resolution of Avro schemas: from a writer's values to those that a reader's schema says.

The rules are compiled once for each pair of schemas, into functions over the raw values (numbers, text, bytes) of
:mod:`millrace.serdes.avro_raw`; where nothing is to be done there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from millrace.avro_branches import with_branch
from millrace.serdes.avro_defaults import default_maker
from millrace.serdes.avro_logical import from_raw, kind_of, unit_of
from millrace.serdes.avro_raw import MALFORMED
from millrace.serdes.avro_schema import MISSING, AvroField, AvroType, Mode, labels_of
from millrace.serdes.avro_unions import is_simple, undecided

Convert = Callable[[Any], Any]
_PROMOTIONS: dict[tuple[str, str], Convert | None] = {
    ("int", "long"): None,
    ("int", "float"): lambda number: float(np.float32(number)),
    ("int", "double"): float,
    ("long", "float"): lambda number: float(np.float32(number)),
    ("long", "double"): float,
    ("float", "double"): None,
    ("string", "bytes"): str.encode,
    ("bytes", "string"): bytes.decode,
}
_UNITS = {"D": 86_400_000_000_000, "ms": 10**6, "us": 1_000, "ns": 1}
_RANGES = {"int": 2**31, "long": 2**63}


class UnresolvableError(ValueError):
    """A value that a writer's schema wrote has no counterpart in the reader's."""


def resolution(writer: AvroType, reader: AvroType, mode: Mode) -> Convert | None:
    """Returns a function that makes the reader's value of the writer's raw one; ``None`` where it is the same.

    Args:
        writer: what the bytes were written with.
        reader: what the values are to be.
        mode: what the values are for.

    Raises:
        UnresolvableError: no value of the writer's can be read. Where only some cannot, the function raises it.
    """
    return _Resolver(mode).of(writer, reader)


class _Resolver:
    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._done: dict[tuple[int, int], Convert | None] = {}
        self._begun: set[tuple[int, int]] = set()

    def of(self, writer: AvroType, reader: AvroType) -> Convert | None:
        pair = (id(writer), id(reader))
        if pair in self._done:
            return self._done[pair]
        if pair in self._begun:
            # A recursive schema: what this pair needs is known when it is first called.
            def later(raw: Any) -> Any:
                if pair not in self._done:
                    raise UnresolvableError(f"{writer.label} is not {reader.label}")
                convert = self._done[pair]
                return raw if convert is None else convert(raw)

            return later
        self._begun.add(pair)
        try:
            convert = self._done[pair] = self._made(writer, reader)
        finally:
            self._begun.discard(pair)
        return convert

    def _made(self, writer: AvroType, reader: AvroType) -> Convert | None:  # noqa: PLR0911 - one for each kind
        if writer.kind == "union":
            return self._of_union(writer, reader)
        if reader.kind == "union":
            return self._into_union(writer, reader, None)
        if writer.kind != reader.kind and (writer.kind, reader.kind) not in _PROMOTIONS:
            raise UnresolvableError(f"{writer.label} is not {reader.label}")
        match writer.kind:
            case "record":
                return self._record(writer, reader)
            case "array":
                return _each_item(self.of(writer.item, reader.item))
            case "map":
                return _each_value(self.of(writer.item, reader.item))
            case "enum":
                return self._enum(writer, reader)
            case "fixed":
                _check_names(writer, reader)
                if writer.size != reader.size:
                    raise UnresolvableError(f"{writer.name} has {writer.size} bytes, not {reader.size}")
        return self._scalar(writer, reader)

    def _of_union(self, writer: AvroType, reader: AvroType) -> Convert | None:
        converts: list[Convert | None] = []
        for index, branch in enumerate(writer.branches):
            try:
                if reader.kind == "union":
                    converts.append(self._into_union(branch, reader, index if writer is reader else None))
                else:
                    converts.append(self.of(branch, reader))
            except UnresolvableError as error:
                converts.append(_raising(f"{branch.label} of the union: {error}"))
        if not is_simple(writer):
            return _by_number(converts)
        nulls = [index for index, branch in enumerate(writer.branches) if branch.kind == "null"]
        of_null = converts[nulls[0]] if nulls else None
        others = [convert for index, convert in enumerate(converts) if index not in nulls]
        return _by_presence(of_null, others[0] if others else None)

    def _into_union(self, writer: AvroType, reader: AvroType, index: int | None) -> Convert | None:
        if index is None:
            index = _branch_for(writer, reader)
        convert = self.of(writer, reader.branches[index])
        if self._mode == "columns" or index not in undecided(reader):
            return convert
        label = labels_of(reader)[index]
        if convert is None:
            return lambda raw: with_branch(raw, label)
        return lambda raw: with_branch(convert(raw), label)

    def _record(self, writer: AvroType, reader: AvroType) -> Convert | None:
        _check_names(writer, reader)
        written = {field.name: field for field in writer.fields}
        sources: dict[str, str] = {}
        converts: list[tuple[str, Convert]] = []
        added: list[tuple[str, Callable[[], Any]]] = []
        for field in reader.fields:
            source = _source(field, written, reader)
            if source is None:
                if field.default is MISSING:
                    raise UnresolvableError(f"{reader.name}.{field.name} has no default")
                added.append((field.name, default_maker(field.type, field.default, self._mode)))
                continue
            sources[field.name] = source.name
            try:
                convert = self.of(source.type, field.type)
            except UnresolvableError as error:
                raise UnresolvableError(f"{reader.name}.{field.name}: {error}") from None
            if convert is not None:
                converts.append((field.name, convert))
        if any(name != source for name, source in sources.items()):
            return _renamed(tuple(sources.items()), dict(converts), tuple(added))
        dropped = tuple(name for name in written if name not in sources)
        return _changed(dropped, tuple(converts), tuple(added))

    def _enum(self, writer: AvroType, reader: AvroType) -> Convert | None:
        _check_names(writer, reader)
        known = set(reader.symbols)
        symbols = {symbol: symbol if symbol in known else reader.default for symbol in writer.symbols}
        if self._mode == "columns" and known.issuperset(symbols):
            return None

        def convert(raw: Any) -> Any:
            if raw is MALFORMED:
                raise ValueError(f"the enum {writer.name} has no symbol of a negative number")
            symbol = symbols[raw]
            if symbol is None:
                raise UnresolvableError(f"the enum {reader.name} has no symbol {raw} and no default")
            return symbol

        return convert

    def _scalar(self, writer: AvroType, reader: AvroType) -> Convert | None:
        # Arrow's own types refuse an int of more than 32 bits.
        steps: list[Convert] = [_int32] if writer.kind == "int" and self._mode == "objects" else []
        promotion = _PROMOTIONS.get((writer.kind, reader.kind))
        if promotion is not None:
            steps.append(promotion)
        if writer.logical is not None and reader.logical is not None and writer.logical != reader.logical:
            steps += _between_times(writer, reader)
        if writer.logical == reader.logical == "decimal" and writer.scale != reader.scale:
            steps.append(_rescaled(writer, reader))
        convert = from_raw(reader) if self._mode == "objects" else None
        if convert is not None:
            steps.append(convert)
        return _one_after_the_other(steps)


def _check_names(writer: AvroType, reader: AvroType) -> None:
    if not _names_match(writer, reader):
        raise UnresolvableError(f"{writer.name} is not {reader.name}, nor one of its aliases")


def _names_match(writer: AvroType, reader: AvroType) -> bool:
    names = {reader.short_name, *(alias.rpartition(".")[2] for alias in reader.aliases)}
    return writer.short_name in names


def _branch_for(writer: AvroType, union: AvroType) -> int:
    """The union's branch that a writer's type is read as: of its name or kind, else of a kind that it widens to."""
    branches = list(enumerate(union.branches))
    for index, label in enumerate(labels_of(union)):
        own = label in (writer.label, f"{writer.label}.{writer.logical or 'plain'}")
        if own and union.branches[index].kind == writer.kind:
            return index
    for index, branch in branches:
        if branch.kind == writer.kind and (not writer.name or _names_match(writer, branch)):
            return index
    for index, branch in branches:
        if (writer.kind, branch.kind) in _PROMOTIONS:
            return index
    raise UnresolvableError(f"{writer.label} is none of {', '.join(labels_of(union))}")


def _source(field: AvroField, written: dict[str, AvroField], reader: AvroType) -> AvroField | None:
    if field.name in written:
        return written[field.name]
    taken = {other.name for other in reader.fields}
    names = [alias for alias in field.aliases if alias in written and alias not in taken]
    return written[names[0]] if names else None


def _between_times(writer: AvroType, reader: AvroType) -> list[Convert]:
    """The same time in another unit."""
    have, wanted = unit_of(writer.logical), unit_of(reader.logical)
    if have is None or wanted is None:
        return []
    kinds = [(kind_of(each.logical) or "").removeprefix("local-") for each in (writer, reader)]
    if kinds[0] != kinds[1]:
        raise UnresolvableError(f"a {writer.logical} is not a {reader.logical}")
    if have == wanted:
        return []
    factor, divisor, limit = _UNITS[have], _UNITS[wanted], _RANGES[reader.kind]

    def convert(number: int) -> int:
        count, left = divmod(number * factor, divisor)
        if left or not -limit <= count < limit:
            raise UnresolvableError(f"the {writer.logical} {number} is not a whole {reader.logical}")
        return count

    return [convert]


def _rescaled(writer: AvroType, reader: AvroType) -> Convert:
    shift = reader.scale - writer.scale
    size = reader.size if reader.kind == "fixed" else None

    def convert(data: bytes) -> bytes:
        unscaled = int.from_bytes(data, "big", signed=True)
        number, left = (unscaled * 10**shift, 0) if shift > 0 else divmod(unscaled, 10**-shift)
        if left:
            raise UnresolvableError(f"a decimal has more than {reader.scale} digits after the point")
        needed = ((number if number >= 0 else ~number).bit_length() + 8) // 8
        if size is not None and needed > size:
            raise UnresolvableError(f"a decimal with {reader.scale} digits after the point does not fit {reader.name}")
        rescaled: bytes = number.to_bytes(needed if size is None else size, "big", signed=True)
        return rescaled

    return convert


def _int32(number: int) -> int:
    if not -(2**31) <= number < 2**31:
        raise ValueError(f"{number} is no int of 32 bits")
    return number


def _raising(reason: str) -> Convert:
    def convert(_: Any) -> Any:
        raise UnresolvableError(reason)

    return convert


def _one_after_the_other(steps: list[Convert]) -> Convert | None:
    if len(steps) <= 1:
        return steps[0] if steps else None
    first, *others = steps

    def convert(raw: Any) -> Any:
        value = first(raw)
        for step in others:
            value = step(value)
        return value

    return convert


def _each_item(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda raw: [convert(item) for item in raw]


def _each_value(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda raw: {key: convert(item) for key, item in raw.items()}


def _by_number(converts: list[Convert | None]) -> Convert:
    def convert(raw: dict[int, Any]) -> Any:
        ((index, value),) = raw.items()
        own = converts[index]
        return value if own is None else own(value)

    return convert


def _by_presence(of_null: Convert | None, of_others: Convert | None) -> Convert | None:
    if of_null is None and of_others is None:
        return None

    def convert(raw: Any) -> Any:
        own = of_null if raw is None else of_others
        return raw if own is None else own(raw)

    return convert


def _renamed(
    sources: tuple[tuple[str, str], ...], converts: dict[str, Convert], added: tuple[tuple[str, Callable[[], Any]], ...]
) -> Convert:
    plan = tuple((name, source, converts.get(name)) for name, source in sources)

    def convert(raw: dict[str, Any]) -> dict[str, Any]:
        record = {name: raw[source] if own is None else own(raw[source]) for name, source, own in plan}
        for name, make in added:
            record[name] = make()
        return record

    return convert


def _changed(
    dropped: tuple[str, ...],
    converts: tuple[tuple[str, Convert], ...],
    added: tuple[tuple[str, Callable[[], Any]], ...],
) -> Convert | None:
    if not (dropped or converts or added):
        return None

    def convert(raw: dict[str, Any]) -> dict[str, Any]:
        # The record is this call's own: fastavro has just made it.
        for name in dropped:
            del raw[name]
        for name, own in converts:
            raw[name] = own(raw[name])
        for name, make in added:
            raw[name] = make()
        return raw

    return convert
