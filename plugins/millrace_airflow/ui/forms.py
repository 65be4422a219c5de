"""A DAG's params as the fields of a form, and a form that came back as the configuration of a run. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from millrace_airflow.hooks.millrace import LATEST
from millrace_airflow.ui.actions import Action

_DRY_RUN = "dry_run"
_APPLICATION = "application"
_LONG_TYPES = {"array", "object"}


@dataclass(frozen=True, kw_only=True)
class Option:
    """One choice of a select.

    Args:
        value: what is sent.
        label: what is shown.
    """

    value: str
    label: str


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field.

    Args:
        name: of the param.
        title: what stands before it.
        description: what stands below it.
        kind: ``checkbox``, ``select``, ``number``, ``text`` or ``json``.
        type: the param's JSON type.
        value: as text; of a checkbox ``true`` or empty.
        options: of a select; of a text what it may be, among others.
        optional: whether it may be left empty, which is null.
        minimum: of a number; empty where there is none.
        step: of a number: ``1`` or ``any``.
        error: what was wrong with what was sent.
        fixed: whether it cannot be changed here.
    """

    name: str
    title: str
    description: str
    kind: str
    type: str
    value: str
    options: tuple[Option, ...] = ()
    optional: bool = False
    minimum: str = ""
    step: str = "any"
    error: str = ""
    fixed: bool = False


def fields(
    params: Mapping[str, Any], action: Action, application: str, *, savepoints: Sequence[Option] = ()
) -> tuple[Field, ...]:
    """The form of a DAG, with the application (of a savepoint: its newest) filled in and, where it deletes something, a
    dry run asked for.

    Args:
        params: as Airflow's REST interface gives them: value, schema and description of each.
        action: the button.
        application: the application whose page the button is on.
        savepoints: what a param named ``savepoint`` may be; what the DAG proposes for this application is added.
    """
    found = []
    for name, param in params.items():
        field = _field(name, param)
        if name == _APPLICATION:
            field = replace(field, kind="text", value=application, options=(), fixed=True)
        elif name == _DRY_RUN and action.deletes:
            field = replace(field, value="true")
        elif name == "savepoint" and field.kind == "text":
            own = tuple(option for option in field.options if option.value.startswith(f"{application}/"))
            options = tuple({option.value: option for option in (*own, *savepoints)}.values())
            field = replace(field, value=f"{application}/{LATEST}", options=options)
        found.append(field)
    return tuple(found)


def _field(name: str, param: Mapping[str, Any]) -> Field:
    schema = param.get("schema") or {}
    value = param.get("value")
    types = schema.get("type") or _type_of(value)
    types = [types] if isinstance(types, str) else list(types)
    kind_of = next((each for each in types if each != "null"), "string")
    title = str(schema.get("title") or name.replace("_", " ").capitalize())
    description = str(param.get("description") or schema.get("description") or "")
    plain = Field(name=name, title=title, description=description, kind="text", type=kind_of, value=_text(value))
    plain = replace(plain, optional="null" in types)
    if kind_of == "boolean":
        return replace(plain, kind="checkbox", value="true" if value else "")
    if schema.get("enum"):
        return replace(plain, kind="select", options=_options(schema["enum"], schema))
    if kind_of in {"integer", "number"}:
        minimum = schema.get("minimum")
        step = "1" if kind_of == "integer" else "any"
        return replace(plain, kind="number", minimum="" if minimum is None else _text(minimum), step=step)
    if kind_of in _LONG_TYPES:
        return replace(plain, kind="json", value="" if value is None else json.dumps(value, indent=1))
    return replace(plain, options=_options(schema.get("examples") or (), schema))


def _options(values: Sequence[Any], schema: Mapping[str, Any]) -> tuple[Option, ...]:
    labels = schema.get("values_display") or {}
    return tuple(Option(value=_text(each), label=str(labels.get(_text(each), _text(each)))) for each in values)


def _type_of(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return "string"


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def read_form(form: Mapping[str, str], asked: Sequence[Field]) -> tuple[dict[str, Any], tuple[Field, ...]]:
    """What a form says.

    Args:
        form: what was sent.
        asked: the fields of the form.

    Returns:
        The run's configuration, and the fields as they were filled in; where one has an error, nothing may be started.
    """
    conf: dict[str, Any] = {}
    filled = []
    for field in asked:
        if field.fixed:
            conf[field.name] = field.value
            filled.append(field)
            continue
        text = form.get(field.name, "").strip()
        if field.kind == "checkbox":
            conf[field.name] = bool(text)
            filled.append(replace(field, value="true" if text else ""))
            continue
        error = ""
        try:
            conf[field.name] = _value(text, field)
        except ValueError as problem:
            error = str(problem)
        filled.append(replace(field, value=text, error=error))
    return conf, tuple(filled)


def _value(text: str, field: Field) -> Any:
    if not text and field.optional:
        return None
    if field.kind == "select":
        chosen = next((option.value for option in field.options if option.value == text), None)
        if chosen is None:
            raise ValueError("this is not one of the choices")
    if field.type == "integer":
        return _whole(text)
    if field.type == "number":
        try:
            value = float(text)
        except ValueError:
            raise ValueError("a number is needed") from None
        return int(value) if value.is_integer() else value
    if field.kind == "json":
        try:
            return json.loads(text or "null")
        except json.JSONDecodeError as error:
            raise ValueError(f"this is no JSON: {error}") from None
    return text


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("a whole number is needed") from None
