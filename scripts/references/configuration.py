"""Every setting of an application."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from types import NoneType
from typing import Any, get_args, get_origin

from pydantic.fields import FieldInfo

from millrace.config import PASSED_ON_PREFIXES, StreamsConfig
from scripts.references.markdown import GENERATED, table

_INTRODUCTION = f"""\
# Configuration

Keys have Kafka Streams' names where it has the setting; those it does not have say so. They go under `config` in
[`config/apps/<name>.yaml`](specification.md). An unknown key is refused, and the nearest known one is named.

{GENERATED}

"""

_PASSED_ON = """
## Settings of other components

Keys that begin with {prefixes}
are passed on to that client, to the internal topics or to the Spark session.
"""
_KINDS: dict[Any, str] = {bool: "true or false", int: "integer", float: "number", str: "string", Any: "name of a serde"}
_COLLECTIONS: dict[Any, str] = {list: "list", dict: "mapping"}


def page() -> str:
    """The reference page, Markdown."""
    fields = StreamsConfig.model_fields
    rows = (setting(str(field.alias), field) for name, field in fields.items() if name != "passed_on")
    prefixes = [f"`{prefix}`" for prefix in PASSED_ON_PREFIXES]
    listed = f"{', '.join(prefixes[:-1])} or {prefixes[-1]}"
    return f"{_INTRODUCTION}{settings(rows)}\n{_PASSED_ON.format(prefixes=listed)}"


def settings(rows: Iterable[tuple[str, ...]]) -> str:
    """A table of settings."""
    return table(("key", "type", "default", "meaning"), rows)


def setting(key: str, field: FieldInfo) -> tuple[str, ...]:
    """The row of a setting."""
    return f"`{key}`", _type_name(field), _default(field), str(field.description)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if default is None:
        return "unset"
    return f"`{_literal(default)}`" if default not in ("", [], {}) else "empty"


def _literal(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _type_name(field: FieldInfo) -> str:
    kind: Any = field.annotation
    if NoneType in get_args(kind):
        (kind,) = [part for part in get_args(kind) if part is not NoneType]
    if get_origin(kind) in _COLLECTIONS:
        return _COLLECTIONS[get_origin(kind)]
    if issubclass(kind, StrEnum):
        return " or ".join(f"`{member}`" for member in kind)
    name: str = _KINDS.get(kind, kind.__name__)
    for constraint in field.metadata:
        if (lowest := getattr(constraint, "ge", None)) is not None:
            name += f", {lowest} or more"
        if (bound := getattr(constraint, "gt", None)) is not None:
            name += f", above {bound}"
    return name
