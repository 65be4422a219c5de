"""The command ``millrace reset``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from millrace.cli.applications import DryRun, Reason, application_named, print_outcome, quiet
from millrace.cli.console import out, progress
from millrace.cli.environment import application_here, bootstrap_servers
from millrace.cli.topics import Login

if TYPE_CHECKING:
    from millrace.operations.reset import Target

_WHERE = "Where the input topics go (one of these; default: --to-earliest)"
_WHAT = "What it touches"


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(epilog="Example: [bold]millrace reset fraud-detection --to-datetime 2026-03-01T00:00:00 --dry-run[/]")(
        reset
    )


def reset(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Name of the application, as in config/apps/NAME.yaml.")
    ] = None,
    *,
    application_id: Annotated[
        str | None,
        typer.Option(help="In place of NAME: application.id of one without specification here, known to the cluster."),
    ] = None,
    servers: Annotated[
        str | None, typer.Option("--bootstrap-servers", help="host:port, with --application-id. Default: as usual.")
    ] = None,
    login: Login = None,
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="To the first record.", rich_help_panel=_WHERE)
    ] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end.", rich_help_panel=_WHERE)] = False,
    to_offset: Annotated[int | None, typer.Option(min=0, help="To an offset.", rich_help_panel=_WHERE)] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="To the first record from a time on; UTC without a zone.", rich_help_panel=_WHERE
        ),
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option(metavar="PnDTnHnMnS", help="To the first record of so long ago.", rich_help_panel=_WHERE),
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option(help="By so many offsets; negative goes back.", rich_help_panel=_WHERE)
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Lines topic,partition,offset.", rich_help_panel=_WHERE),
    ] = None,
    input_topics: Annotated[
        str | None, typer.Option(metavar="A,B", help="Input topics. Default: all.", rich_help_panel=_WHAT)
    ] = None,
    internal_topics: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Internal topics to delete. Default: all.", rich_help_panel=_WHAT),
    ] = None,
    output_topics: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Output topics whose records are deleted.", rich_help_panel=_WHAT),
    ] = None,
    dead_letter_topic: Annotated[
        bool,
        typer.Option("--dead-letter-topic", help="Delete the records of the dead-letter topic.", rich_help_panel=_WHAT),
    ] = False,
    delete_savepoints: Annotated[
        bool,
        typer.Option(
            "--delete-savepoints", help="Delete its savepoints; they are kept otherwise.", rich_help_panel=_WHAT
        ),
    ] = False,
    stop: Annotated[bool, typer.Option("--stop", help="Stop the application first, if it runs here.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Pass over members and drivers elsewhere that are dead, but not missed yet.")
    ] = False,
    dry_run: DryRun = False,
    reason: Reason = "reset with `millrace reset`",
) -> None:
    """Let an application begin again: offsets, internal topics, stores.

    Everything is decided before anything changes. Killed midway, it goes on with `millrace operations resume NAME`.
    """
    from millrace.operations.reset import NamedCluster, ResetOptions
    from millrace.operations.reset import reset as reset_application

    if (name is None) == (application_id is None):
        raise typer.BadParameter("give NAME or --application-id")
    if servers is not None and application_id is None:
        raise typer.BadParameter("--bootstrap-servers belongs to --application-id")
    cluster = (
        None
        if application_id is None
        else NamedCluster(bootstrap_servers=bootstrap_servers(servers), command_config=login and login.absolute())
    )
    quiet()
    options = ResetOptions(
        to=_target(
            to_earliest=to_earliest,
            to_latest=to_latest,
            to_offset=to_offset,
            to_datetime=to_datetime,
            by_duration=by_duration,
            shift_by=shift_by,
            from_file=from_file,
        ),
        input_topics=_names(input_topics),
        internal_topics=_names(internal_topics),
        output_topics=_names(output_topics),
        empties_dead_letters=dead_letter_topic,
        deletes_savepoints=delete_savepoints,
        stop=stop,
        force=force,
    )
    application = application_here(application_id or "") if name is None else application_named(name)
    with progress(f"resetting {application}") as report:
        outcome = reset_application(
            application,
            options=options,
            cluster=cluster,
            reason=reason,
            dry_run=dry_run,
            progress=report,
        )
    print_outcome(outcome)
    for line in outcome.results.get("check", {}).get("checks", ()):
        out.print(f"  checked {line}", markup=False)


def _target(
    *,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_datetime: str | None,
    by_duration: str | None,
    shift_by: int | None,
    from_file: Path | None,
) -> Target:
    import time

    from millrace.operations import reset as asked

    targets: list[Target] = []
    targets += [asked.ToEarliest()] if to_earliest else []
    targets += [asked.ToLatest()] if to_latest else []
    targets += [asked.ToOffset(to_offset)] if to_offset is not None else []
    targets += [asked.ToTime(asked.parse_time(to_datetime))] if to_datetime is not None else []
    if by_duration is not None:
        targets.append(asked.ToTime(round((time.time() - asked.parse_duration(by_duration).total_seconds()) * 1000)))
    targets += [asked.ShiftBy(shift_by)] if shift_by is not None else []
    targets += [asked.parse_offsets(from_file.read_text())] if from_file is not None else []
    if len(targets) > 1:
        raise typer.BadParameter("give only one option that says where the input topics go")
    return targets[0] if targets else asked.ToEarliest()


def _names(text: str | None) -> frozenset[str]:
    return frozenset(name.strip() for name in (text or "").split(",") if name.strip())
