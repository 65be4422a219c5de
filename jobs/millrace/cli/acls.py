"""The command ``millrace acls``."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import orjson
import typer
from rich.table import Table

from millrace.cli.console import out
from millrace.cli.environment import fill_in_environment, named_spec

if TYPE_CHECKING:
    from millrace.insight.acls import NeededAcls


class Format(StrEnum):
    """The format in which the list is printed."""

    TEXT = "text"
    JSON = "json"
    COMMANDS = "commands"


class Purpose(StrEnum):
    """As :class:`millrace.insight.acls.Purpose`, and all; without its imports, which take seconds."""

    ALL = "all"
    RUN = "run"
    OPERATE = "operate"
    CANARY = "canary"


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(epilog="Example: [bold]millrace acls fraud-detection --format commands[/]")(acls)


def acls(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="Specification: a YAML file, or a name in config/apps.")],
    *,
    principal: Annotated[
        str | None, typer.Option(help="The user, as the broker calls it. Default: User: and sasl.username.")
    ] = None,
    purpose: Annotated[
        Purpose, typer.Option("--for", help="Only what running needs, or what operations or a canary need beside it.")
    ] = Purpose.ALL,
    form: Annotated[Format, typer.Option("--format", help="text, json, or commands of kafka-acls.sh.")] = Format.TEXT,
) -> None:
    """List what an application's user must be allowed to do on the broker; needs no broker."""
    from millrace.insight.acls import Purpose as NeededFor
    from millrace.insight.acls import needed_acls
    from millrace.install.which_spec import Use

    fill_in_environment()
    only = None if purpose is Purpose.ALL else NeededFor(purpose)
    needed = needed_acls(named_spec(spec, Use.DEPLOYMENT).spec, principal=principal, purpose=only)
    if form is Format.JSON:
        out.print(orjson.dumps(needed.document(), option=orjson.OPT_INDENT_2).decode(), markup=False)
        return
    if form is Format.COMMANDS:
        for line in (*needed.commands(), *(f"# {note}" for note in needed.notes)):
            out.print(line, markup=False)
        return
    out.print(_table(needed), soft_wrap=False)
    for note in needed.notes:
        out.print(note, markup=False)


def _table(needed: NeededAcls) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", title=needed.principal, title_justify="left")
    for header in ("resource", "name", "operations", "for", "reason"):
        table.add_column(header, no_wrap=True)
    for acl in needed.acls:
        name = f"{acl.name}*" if acl.prefixed else acl.name
        table.add_row(acl.resource, name, ", ".join(acl.operations), acl.purpose, acl.reason)
    return table
