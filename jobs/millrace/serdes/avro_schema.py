"""Avro schemas as plain nodes with full names: strictly for an application's own schema, leniently for a writer's."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")

_BASES: dict[str, tuple[str, ...]] = {
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "local-timestamp-nanos": ("long",),
    "decimal": ("bytes", "fixed"),
    "uuid": ("string",),
}
"""The logical types that mean something here, and the types that they are put on. Others are left out of the nodes."""


class SchemaError(ValueError):
    """A schema is not Avro's; the message says where."""


class _Missing:
    def __repr__(self) -> str:
        return "no default"


MISSING = _Missing()
"""Stands where a field has no default, since ``None`` is one."""


@dataclass(eq=False)
class AvroField:
    """A field of a record.

    Args:
        name: its name.
        type: its type.
        default: its default as JSON reads it, or :data:`MISSING`.
        aliases: other names that a writer may have given it.
    """

    name: str
    type: AvroType
    default: Any = MISSING
    aliases: tuple[str, ...] = ()


@dataclass(eq=False)
class AvroType:
    """A type; recursive schemas make cycles of them.

    Args:
        kind: name of a primitive or complex type; an ``error`` is a ``record``.
        name: full name of a record, enum or fixed.
        aliases: other full names that a writer may have given it.
        logical: logical type that changes what values are, else ``None``.
        precision: of a decimal, digits.
        scale: of a decimal, digits after the point.
        size: of a fixed, bytes.
        symbols: of an enum.
        default: the symbol that an enum reads in place of ones it does not have.
        fields: of a record.
        items: what an array or a map holds.
        branches: of a union.
    """

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    logical: str | None = None
    precision: int = 0
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    default: str | None = None
    fields: list[AvroField] = field(default_factory=list)
    items: AvroType | None = None
    branches: list[AvroType] = field(default_factory=list)

    def __repr__(self) -> str:
        # The fields may lead back here.
        return f"AvroType({self.label})"

    @property
    def item(self) -> AvroType:
        """The type of an array's items or a map's values."""
        assert self.items is not None
        return self.items

    @property
    def label(self) -> str:
        """Its name in a union and in messages: the full name, else the kind."""
        return self.name or self.kind

    @property
    def short_name(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition(".")[2]


def labels_of(union: AvroType) -> list[str]:
    """Returns the name of each branch of a union: full name or kind, with the logical type where that is not enough."""
    plain = [branch.label for branch in union.branches]
    return [
        label if plain.count(label) == 1 else f"{label}.{branch.logical or 'plain'}"
        for label, branch in zip(plain, union.branches, strict=True)
    ]


def parsed(text: str, references: Iterable[str] = (), *, strict: bool) -> AvroType:
    """Returns the nodes of a schema.

    What decoding does not use cannot make a writer's schema unusable: defaults, aliases, the form of names, unknown
    and malformed logical types.

    Args:
        text: JSON.
        references: schemas whose names it uses, each after those that it uses itself.
        strict: whether names and logical types are checked too. Defaults are the reader's to check.

    Raises:
        SchemaError: it is not a schema.
    """
    parser = _Parser(strict)
    for reference in references:
        parser.type_of(_json(reference), "")
    return parser.type_of(_json(text), "")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise SchemaError(f"it is not JSON: {error}") from error


class _Parser:
    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self._named: dict[str, AvroType] = {}

    def type_of(self, schema: Any, namespace: str) -> AvroType:
        if isinstance(schema, str):
            return self._called(schema, namespace)
        if isinstance(schema, list):
            return self._union(schema, namespace)
        if not isinstance(schema, Mapping):
            raise SchemaError(f"{_shown(schema)} is no type")
        kind = schema.get("type")
        if kind in ("record", "error", "enum", "fixed"):
            return self._named_type(kind, schema, namespace)
        if kind in ("array", "map"):
            part = "items" if kind == "array" else "values"
            if part not in schema:
                raise SchemaError(f"an {kind} has no {part}" if kind == "array" else f"a {kind} has no {part}")
            return AvroType(kind, items=self.type_of(schema[part], namespace))
        if kind is None:
            raise SchemaError(f"{_shown(schema)} has no type")
        inner = self.type_of(kind, namespace)
        if inner.kind in PRIMITIVES and not inner.name and inner.logical is None:
            self._add_logical(inner, schema)
        return inner

    def _called(self, name: str, namespace: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        candidates = [name] if "." in name or not namespace else [f"{namespace}.{name}", name]
        for candidate in candidates:
            if candidate in self._named:
                return self._named[candidate]
        raise SchemaError(f"there is no type {name!r}")

    def _union(self, schema: list[Any], namespace: str) -> AvroType:
        union = AvroType("union", branches=[self.type_of(branch, namespace) for branch in schema])
        if not union.branches:
            raise SchemaError("a union has no branch")
        if self._strict:
            if any(branch.kind == "union" for branch in union.branches):
                raise SchemaError("a union stands directly in a union")
            labels = labels_of(union)
            twice = sorted({label for label in labels if labels.count(label) > 1})
            if twice:
                raise SchemaError(f"a union has {', '.join(twice)} twice")
        return union

    def _named_type(self, kind: str, schema: Mapping[str, Any], namespace: str) -> AvroType:
        name = self._full_name(schema, namespace)
        own_namespace = name.rpartition(".")[0]
        if self._strict and name in self._named:
            raise SchemaError(f"{name} is defined twice")
        named = AvroType("record" if kind == "error" else kind, name=name)
        named.aliases = tuple(
            alias if "." in alias or not own_namespace else f"{own_namespace}.{alias}"
            for alias in self._aliases(schema, name)
        )
        self._named[name] = named
        if kind == "fixed":
            named.size = _size(schema, name)
            self._add_logical(named, schema)
        elif kind == "enum":
            named.symbols = self._symbols(schema, name)
            default = schema.get("default")
            if default in named.symbols:
                named.default = default
            elif self._strict and default is not None:
                raise SchemaError(f"the default {_shown(default)} of the enum {name} is none of its symbols")
        else:
            named.fields = self._fields(schema, name, own_namespace)
        return named

    def _full_name(self, schema: Mapping[str, Any], namespace: str) -> str:
        name = schema.get("name")
        if not isinstance(name, str) or not name:
            raise SchemaError(f"a {schema['type']} has no name")
        if "." in name:
            return name
        own = schema.get("namespace", namespace)
        if own and not isinstance(own, str):
            if self._strict:
                raise SchemaError(f"the namespace of {name} is {_shown(own)}, not a string")
            own = namespace
        return f"{own}.{name}" if own else name

    def _aliases(self, schema: Mapping[str, Any], name: str) -> list[str]:
        aliases = schema.get("aliases") or []
        if isinstance(aliases, list) and all(isinstance(alias, str) for alias in aliases):
            return aliases
        if self._strict:
            raise SchemaError(f"the aliases of {name} are {_shown(aliases)}, not a list of names")
        return []

    def _symbols(self, schema: Mapping[str, Any], name: str) -> tuple[str, ...]:
        symbols = schema.get("symbols")
        if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
            raise SchemaError(f"the symbols of the enum {name} are {_shown(symbols)}, not a list of names")
        if self._strict and len(set(symbols)) != len(symbols):
            raise SchemaError(f"the enum {name} has a symbol twice")
        return tuple(symbols)

    def _fields(self, schema: Mapping[str, Any], name: str, namespace: str) -> list[AvroField]:
        listed = schema.get("fields", None if self._strict else [])
        if not isinstance(listed, list):
            raise SchemaError(f"the record {name} has no list of fields")
        fields: list[AvroField] = []
        for each in listed:
            if not isinstance(each, Mapping) or not isinstance(each.get("name"), str) or "type" not in each:
                raise SchemaError(f"the record {name} has a field without a name or a type: {_shown(each)}")
            own = each["name"]
            if any(known.name == own for known in fields):
                raise SchemaError(f"the record {name} has the field {own} twice")
            try:
                kind = self._field_type(each, namespace)
            except SchemaError as error:
                raise SchemaError(f"{name}.{own}: {error}") from None
            aliases = tuple(self._aliases(each, f"{name}.{own}"))
            fields.append(AvroField(own, kind, each.get("default", MISSING), aliases))
        return fields

    def _field_type(self, schema: Mapping[str, Any], namespace: str) -> AvroType:
        kind = schema["type"]
        if isinstance(kind, str) and kind in ("record", "error", "enum", "fixed", "array", "map"):
            # Not Avro, but written: the type's attributes stand in the field itself.
            return self.type_of(schema, namespace)
        return self.type_of(kind, namespace)

    def _add_logical(self, base: AvroType, schema: Mapping[str, Any]) -> None:
        logical = schema.get("logicalType")
        if not isinstance(logical, str) or base.kind not in _BASES.get(logical, ()):
            return
        if logical == "decimal":
            problem = _decimal_problem(base, schema)
            if problem is not None:
                if self._strict:
                    raise SchemaError(f"a decimal's {problem}")
                return
            base.precision, base.scale = schema["precision"], schema.get("scale") or 0
        base.logical = logical


def _decimal_problem(base: AvroType, schema: Mapping[str, Any]) -> str | None:
    precision, scale = schema.get("precision"), schema.get("scale") or 0
    if not isinstance(precision, int) or isinstance(precision, bool) or precision <= 0:
        return f"precision is {_shown(precision)}, not a positive integer"
    if not isinstance(scale, int) or isinstance(scale, bool) or not 0 <= scale <= precision:
        return f"scale is {_shown(scale)}, not an integer from 0 to its precision"
    if base.kind == "fixed" and precision > math.floor(math.log10(2) * (8 * base.size - 1)):
        return f"precision of {precision} does not fit into {base.size} bytes"
    return None


def _size(schema: Mapping[str, Any], name: str) -> int:
    size = schema.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise SchemaError(f"the size of the fixed {name} is {_shown(size)}, not a number of bytes")
    return size


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


Mode = Literal["objects", "columns"]
"""What values are read for: Python objects, or an Arrow array, which takes dates and times as numbers."""
