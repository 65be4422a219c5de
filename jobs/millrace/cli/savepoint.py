"""``millrace savepoint``: keep the state and progress of an application, and bring it back."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from millrace.cli.applications import application_named
from millrace.cli.console import messages, out, progress
from millrace.cli.environment import application_here, fill_in_environment
from millrace.logs import LogFormat, configure_logs

if TYPE_CHECKING:
    from millrace.install.application import Application
    from millrace.install.which_spec import Use
    from millrace.operations.outcome import Outcome

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the application, as in config/apps/NAME.yaml.")]
SavepointName = Annotated[str, typer.Argument(metavar="SAVEPOINT", help="Name of the savepoint, as `list` prints it.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan; change nothing.")]
Reason = Annotated[str, typer.Option("--reason", help="Goes to the application's journal.")]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Keep the state and progress of an application, and bring it back.",
    epilog="Example: [bold]millrace savepoint create fraud-detection[/]",
)


@app.command(epilog="Example: [bold]millrace savepoint create fraud-detection --name before-upgrade[/]")
def create(
    name: Name,
    *,
    savepoint: Annotated[str, typer.Option("--name", help="Name of the savepoint. Default: the time, UTC.")] = "",
    if_due: Annotated[
        bool, typer.Option("--if-due", help="Only where `savepoints.interval_s` has passed; then prune.")
    ] = False,
    timeout: Annotated[float, typer.Option(min=1, help="Longest time for the driver's part, seconds.")] = 600.0,
    dry_run: DryRun = False,
    reason: Reason = "taken with `millrace savepoint create`",
) -> None:
    """Take a savepoint of a running or stopped application."""
    from millrace.operations.savepoints import create_savepoint, take_due_savepoint

    with progress(f"taking a savepoint of {name}") as report:
        if if_due:
            _print(take_due_savepoint(_application(name), progress=report))
            return
        outcome = create_savepoint(
            _application(name),
            name=savepoint,
            reason=reason,
            dry_run=dry_run,
            timeout_s=timeout,
            progress=report,
        )
    _print(outcome)


@app.command("list", epilog="Example: [bold]millrace savepoint list fraud-detection[/]")
def list_savepoints(name: Name) -> None:
    """List all savepoints of an application, oldest first."""
    from millrace.operations.savepoints import list_savepoints as listed

    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in ("name", "state", "taken", "size", "added", "parent", "reason"):
        table.add_column(header, overflow="fold")
    for each in listed(_application(name)):
        taken = datetime.fromtimestamp(each.created_at, UTC).isoformat(timespec="seconds")
        table.add_row(
            each.name,
            str(each.state),
            taken,
            f"{each.size / 1e6:.1f} MB",
            f"{each.copied_bytes / 1e6:.1f} MB",
            each.parent or "",
            each.reason,
        )
    out.print(table, soft_wrap=False)


@app.command(epilog="Example: [bold]millrace savepoint show fraud-detection before-upgrade[/]")
def show(name: Name, savepoint: SavepointName) -> None:
    """Show the manifest of a savepoint, as JSON."""
    from millrace.operations.savepoints import show_savepoint

    out.print(show_savepoint(_application(name), savepoint).to_json().decode(), markup=False)


@app.command(epilog="Example: [bold]millrace savepoint verify fraud-detection before-upgrade[/]")
def verify(name: Name, savepoint: SavepointName) -> None:
    """Read every file of a savepoint and compare it with the manifest."""
    from millrace.operations.savepoints import verify_savepoint

    with progress(f"verifying savepoint {savepoint}") as report:
        outcome = verify_savepoint(_application(name), savepoint, progress=report)
    out.print(f"{savepoint}: {outcome.text}", markup=False)


@app.command(epilog="Example: [bold]millrace savepoint delete fraud-detection before-upgrade[/]")
def delete(
    name: Name,
    savepoint: SavepointName,
    dry_run: DryRun = False,
    reason: Reason = "deleted with `millrace savepoint delete`",
) -> None:
    """Delete a savepoint, and the files that no other one needs."""
    from millrace.operations.savepoints import delete_savepoint

    _print(delete_savepoint(_application(name), savepoint, reason=reason, dry_run=dry_run))


@app.command(epilog="Example: [bold]millrace savepoint prune fraud-detection --dry-run[/]")
def prune(name: Name, dry_run: DryRun = False) -> None:
    """Delete the savepoints that the specification does not keep; the newest complete one always stays."""
    from millrace.operations.savepoints import prune_savepoints

    _print(prune_savepoints(_application(name), dry_run=dry_run))


@app.command(epilog="Example: [bold]millrace savepoint restore fraud-detection before-upgrade --dry-run[/]")
def restore(
    name: Name,
    savepoint: SavepointName,
    *,
    into: Annotated[
        str, typer.Option("--into", metavar="NAME", help="Application that gets it, a clone. Default: the same one.")
    ] = "",
    allow_dropped_store: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Store that the topology need not have any more.")
    ] = None,
    allow_shared_output: Annotated[
        list[str] | None, typer.Option(metavar="TOPIC", help="Output topic that a clone may share with the original.")
    ] = None,
    start: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC[:PARTITION]=OFFSET",
            help="Where a topic starts that the savepoint does not know; also TOPIC=earliest, TOPIC=latest.",
        ),
    ] = None,
    dry_run: DryRun = False,
    reason: Reason = "restored with `millrace savepoint restore`",
) -> None:
    """Bring a stopped application back to a savepoint, or make a clone of it."""
    from millrace.install.which_spec import Use
    from millrace.operations.savepoints import restore_savepoint

    _application(into or name, Use.DEPLOYMENT)
    with progress(f"restoring savepoint {savepoint}") as report:
        outcome = restore_savepoint(
            application_here(name),
            savepoint,
            into=into,
            allow_dropped_stores=allow_dropped_store or (),
            allow_shared_outputs=allow_shared_output or (),
            starts=start or (),
            reason=reason,
            dry_run=dry_run,
            progress=report,
        )
    _print(outcome)


def _application(name: str, use: Use | None = None) -> Application:
    configure_logs(level=logging.WARNING, log_format=LogFormat.CONSOLE)
    fill_in_environment()
    return application_named(name, use)


def _print(outcome: Outcome) -> None:
    for step in outcome.steps:
        messages.print(f"  {step}", markup=False)
    would = "would do: " if outcome.dry_run else ""
    out.print(f"{outcome.application}: {would}{outcome.done} ({outcome.text})", markup=False)
