"""Every command of ``millrace``, from the declarations that its help comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer

from millrace.cli.application import app
from scripts.references.markdown import GENERATED, code, from_docstring, table

_INTRODUCTION = f"""\
# The command line

Results go to standard output, everything about the work itself to standard error. The exit code is 0 when all is well,
1 when something failed (one line says what, and the remedy), 2 for a wrong command line, 3 for a driver that a newer
one took over from, 4 for `millrace status` where an application commits nothing, and 130 after Ctrl-C. `--verbose`,
anywhere in the line, shows the traceback of an error. `--help`
after any command shows what is here.

{GENERATED}

"""
_MARKUP = re.compile(r"\[/?[a-z ]*\]")
_KINDS: dict[Any, str] = {int: "NUMBER", float: "NUMBER", Path: "PATH"}


def page() -> str:
    """The reference page, Markdown."""
    commands = [(words, command) for words, command in walk() if not hasattr(command, "commands")]
    overview = table(
        ("command", "what it does"),
        (
            (f"[`millrace {words}`](#millrace-{words.replace(' ', '-')})", _sentence(command.help))
            for words, command in commands
        ),
    )
    return _INTRODUCTION + "\n\n".join([overview, *(_section(words, command) for words, command in commands)]) + "\n"


def walk() -> Iterator[tuple[str, Any]]:
    """Every command below ``millrace``, groups included, with its words: ``savepoint``, ``savepoint create``."""
    waiting: list[tuple[str, Any]] = [("", typer.main.get_command(app))]
    while waiting:
        prefix, group = waiting.pop(0)
        for name, command in sorted(group.commands.items()):
            words = f"{prefix} {name}".strip()
            yield words, command
            if hasattr(command, "commands"):
                waiting.append((words, command))


def _section(words: str, command: Any) -> str:
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    usage = " ".join(["millrace", words, *map(_argument, arguments), *(["[OPTIONS]"] if options else [])])
    example = _MARKUP.sub("", command.epilog).removeprefix("Example: ")
    parts = [f"## millrace {words}", f"```text\n{usage}\n```", from_docstring(_MARKUP.sub("", command.help))]
    if arguments:
        named = [(f"`{_value(argument)}`", _meaning(argument)) for argument in arguments]
        parts.append(table(("argument", "meaning"), named))
    if options:
        rows = [(_option(option), _meaning(option), _default(option)) for option in options]
        parts.append(table(("option", "meaning", "default"), rows))
    return "\n\n".join([*parts, f"```sh\n{example}\n```"])


def _argument(argument: Any) -> str:
    text = _value(argument)
    return text if argument.required or text.startswith("[") else f"[{text}]"


def _option(option: Any) -> str:
    if option.is_flag:
        return ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    return ", ".join(f"`{name} {_value(option)}`" for name in option.opts)


def _value(parameter: Any) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    if parameter.param_type_name == "argument":
        return str(parameter.name).upper()
    kind = parameter.type_descriptor.annotation
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return " or ".join(kind)
    return _KINDS.get(kind, "TEXT")


def _meaning(parameter: Any) -> str:
    text = str(parameter.help or "")
    if getattr(parameter, "multiple", False) and "repeatable" not in text:
        text += " May be given several times."
    return text


def _default(option: Any) -> str:
    if option.required:
        return "required"
    if option.is_flag:
        return f"`{option.opts[0]}`" if option.default else ""
    return "" if option.default in (None, "") else code(option.default)


def _sentence(text: str) -> str:
    return from_docstring(_MARKUP.sub("", text)).partition("\n\n")[0]
