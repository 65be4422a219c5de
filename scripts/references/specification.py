"""Every key of a specification, ``config/apps/<name>.yaml``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from millrace.install.spec import ApplicationSpec
from scripts.references.configuration import setting, settings
from scripts.references.markdown import GENERATED

_INTRODUCTION = f"""\
# The specification of an application

The desired state of an application is the file `config/apps/<name>.yaml` (or a file in `MILLRACE_CONFIG_DIR`).
`${{NAME}}` and `${{NAME:-default}}` in its texts are environment variables, filled in whenever it is read: secrets stay
out of it. `config` holds the [settings](configuration.md) of Millrace and its clients. `millrace deploy`, supervision
and reconcile go to what the file says. An unknown key is refused, and the nearest known one is named.

The file is UTF-8, at most a mebibyte, with one document. Its keys are text, each there once; values are those of JSON,
so that a date is written in quotes. Aliases may repeat values, up to 20,000 keys and values in all. `name` is the
file's name without `.yaml`: every command refuses another one. A file that is wrong hides no other.
[Which specification counts](operations.md#which-specification-counts) for what is said there.

{GENERATED}

"""


def page() -> str:
    """The reference page, Markdown."""
    parts = [settings(_rows(ApplicationSpec))]
    for path, section, is_list in _sections(ApplicationSpec):
        parts.append(f"## `{path}`\n\n{section.__doc__}{' Each has these keys.' if is_list else ''}")
        parts.append(settings(_rows(section, path)))
    return _INTRODUCTION + "\n\n".join(parts) + "\n"


def _sections(document: type[BaseModel], path: str = "") -> Iterator[tuple[str, type[BaseModel], bool]]:
    """Sections, and those in them, with dots between their keys; whether each is a list."""
    for key, field in document.model_fields.items():
        if section := _section(field):
            yield f"{path}{key}", section, bool(get_args(field.annotation))
            yield from _sections(section, f"{path}{key}.")


def _section(field: FieldInfo) -> type[BaseModel] | None:
    kinds: tuple[Any, ...] = get_args(field.annotation) or (field.annotation,)
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def _rows(section: type[BaseModel], path: str = "") -> Iterator[tuple[str, ...]]:
    """Sections of their own have their keys below, and no description."""
    anchor = path.replace(".", "")
    for key, field in section.model_fields.items():
        if field.description:
            yield setting(key, field)
        else:
            yield f"`{key}`", "section", "", f"See [below](#{anchor}{key})."
