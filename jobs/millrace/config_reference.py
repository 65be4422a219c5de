"""Writes docs/configuration.md: ``python -m millrace.config_reference > docs/configuration.md``."""

from __future__ import annotations

import sys
from enum import StrEnum
from types import UnionType
from typing import Any, get_args, get_origin

from pydantic.fields import FieldInfo

from millrace.config import PASSED_ON_PREFIXES, StreamsConfig

_INTRODUCTION = """\
# Configuration

Keys have Kafka Streams' names where it has the setting; those it does not have say so. They go under `config` in
`config/apps/<name>.yaml`. An unknown key is refused, and the nearest known one is named.

This page is generated: `python -m millrace.config_reference > docs/configuration.md`.

| key | type | default | meaning |
|---|---|---|---|
"""

_PASSED_ON = """
## Settings of other components

Keys that begin with {prefixes}
are passed on to that client, to the internal topics or to the Spark session.
"""


def page() -> str:
    """The reference page, Markdown."""
    fields = StreamsConfig.model_fields
    rows = "\n".join(_row(str(field.alias), field) for name, field in fields.items() if name != "passed_on")
    prefixes = [f"`{prefix}`" for prefix in PASSED_ON_PREFIXES]
    listed = f"{', '.join(prefixes[:-1])} or {prefixes[-1]}"
    return f"{_INTRODUCTION}{rows}\n{_PASSED_ON.format(prefixes=listed)}"


def _row(key: str, field: FieldInfo) -> str:
    return f"| `{key}` | {_type_name(field)} | {_default(field)} | {field.description} |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    return "unset" if field.default is None else f"`{_literal(field.default)}`"


def _literal(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _type_name(field: FieldInfo) -> str:
    kind: Any = field.annotation
    if get_origin(kind) is UnionType:
        (kind,) = [part for part in get_args(kind) if part is not type(None)]
    if issubclass(kind, StrEnum):
        return " or ".join(f"`{member}`" for member in kind)
    name: str = {bool: "true or false", int: "integer", str: "string"}.get(kind, kind.__name__)
    for constraint in field.metadata:
        lowest = getattr(constraint, "ge", None)
        if lowest is not None:
            name += f", {lowest} or more"
    return name


if __name__ == "__main__":
    sys.stdout.write(page())
