"""``millrace operations``: multi-step operations that were run, and how to go on with what was killed."""

from __future__ import annotations

from typing import Annotated

import orjson
import typer
from rich.table import Table

from millrace.cli.console import out, progress
from millrace.cli.environment import application_here

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the application.")]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Multi-step operations: what was done, and how to go on with what was killed.",
    epilog="Example: [bold]millrace operations list fraud-detection[/]",
)


@app.command("list", epilog="Example: [bold]millrace operations list fraud-detection[/]")
def list_operations(name: Name) -> None:
    """List all operations of an application, oldest first."""
    from millrace.install.home import Home
    from millrace.operations import operations_of

    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in ("id", "state", "begun", "ended", "step", "error"):
        table.add_column(header, overflow="fold")
    for record in operations_of(Home.from_environment().application(name)):
        table.add_row(record.id, str(record.state), record.begun_at, record.ended_at, record.step, record.error)
    out.print(table, soft_wrap=False)


@app.command(epilog="Example: [bold]millrace operations show fraud-detection 20260301T120000.000000-reset[/]")
def show(name: Name, operation_id: Annotated[str, typer.Argument(metavar="ID", help="As `list` prints it.")]) -> None:
    """Show the plan of one operation and what its steps returned, as JSON."""
    from millrace.errors import OperationError
    from millrace.install.home import Home
    from millrace.operations import operations_of

    known = {record.id: record for record in operations_of(Home.from_environment().application(name))}
    if operation_id not in known:
        raise OperationError(
            f"{name} has no operation {operation_id}.", remedy=f"see `millrace operations list {name}`"
        )
    out.print(orjson.dumps(known[operation_id], option=orjson.OPT_INDENT_2).decode(), markup=False)


@app.command(epilog="Example: [bold]millrace operations resume fraud-detection[/]")
def resume(name: Name) -> None:
    """Resume the operation that was killed or has failed, at the step that it did not complete."""
    from millrace.operations import resume as resume_operation

    with progress(f"resuming the operation of {name}") as report:
        outcome = resume_operation(application_here(name), progress=report)
    said = outcome.results.get("conclude", {}).get("text", "")
    out.print(f"{outcome.operation}: completed" + (f" ({said})" if said else ""), markup=False)


@app.command(epilog='Example: [bold]millrace operations abandon fraud-detection --reason "reset by hand instead"[/]')
def abandon(
    name: Name, reason: Annotated[str, typer.Option("--reason", help="Goes to the journal.")] = "given up by hand"
) -> None:
    """Abandon the operation that was killed or has failed; what it has done until then stays done."""
    from millrace.operations import abandon as abandon_operation

    record = abandon_operation(application_here(name), reason=reason)
    out.print(f"abandoned {record}", markup=False)
