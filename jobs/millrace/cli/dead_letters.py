"""The commands of ``millrace dlq``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from millrace.cli.applications import DryRun, Name, Reason, application_named, print_outcome, quiet
from millrace.cli.console import out, progress

_LATEST_DATE_MS = 253_402_300_799_999
"""The last millisecond of the year 9999: Python's dates end there, timestamps do not."""

if TYPE_CHECKING:
    from millrace.operations.dead_letters import ListedDeadLetterRecord, Selection
    from millrace.operations.outcome import Outcome

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Dead-letter records: see them, send their records back, delete them.",
    epilog="Example: [bold]millrace dlq list fraud-detection --error SerializationError[/]",
)

Since = Annotated[
    str | None, typer.Option(metavar="TIME", help="Records from this time on, as 2026-03-01T12:00:00; UTC.")
]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Records before this time.")]
Error = Annotated[str, typer.Option(help="Part of the exception's name, or of the reason of the drop.")]
Topic = Annotated[str | None, typer.Option(help="Where the records were read.")]
POSITION = "PARTITION:OFFSET"


@app.command("list", epilog="Example: [bold]millrace dlq list fraud-detection --since 2026-03-01T00:00:00[/]")
def list_dead_letter_records(
    name: Name,
    *,
    since: Since = None,
    until: Until = None,
    error: Error = "",
    topic: Topic = None,
    limit: Annotated[int | None, typer.Option(min=1, help="How many at most, the last ones.")] = None,
) -> None:
    """List dead-letter records: what failed, where it was read, and whether it was sent back."""
    from millrace.operations import dead_letters

    quiet()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in ("letter", "time", "error", "read from", "key", "replayed"):
        table.add_column(header, overflow="fold")
    found = dead_letters.list_dead_letter_records(
        application_named(name), selection=_selection(since, until, error, topic), limit=limit
    )
    for each in found:
        record = each.record
        position = f"{record.topic}-{record.source_partition}:{record.source_offset}" if record.topic else "unknown"
        table.add_row(
            record.name,
            _time(record.timestamp),
            record.error or "unknown",
            position,
            _text(record.key),
            each.replayed.at if each.replayed else "",
        )
    out.print(table, soft_wrap=False)


@app.command(epilog="Example: [bold]millrace dlq show fraud-detection 0:17[/]")
def show(name: Name, position: Annotated[str, typer.Argument(metavar=POSITION, help="As `list` prints it.")]) -> None:
    """Show one dead-letter record wholly, as JSON; what is no text is given in base64."""
    import orjson

    from millrace.operations import dead_letters

    quiet()
    selection = dead_letters.Selection(positions=frozenset({dead_letters.parse_record_position(position)}))
    (found,) = dead_letters.list_dead_letter_records(application_named(name), selection=selection)
    out.print(orjson.dumps(_document(found), option=orjson.OPT_INDENT_2).decode(), markup=False)


@app.command(epilog="Example: [bold]millrace dlq replay fraud-detection --error SerializationError --dry-run[/]")
def replay(
    name: Name,
    letters: Annotated[
        list[str] | None, typer.Argument(metavar=f"[{POSITION}]...", help="Default: all that fit.")
    ] = None,
    *,
    since: Since = None,
    until: Until = None,
    error: Error = "",
    topic: Topic = None,
    to_source_partition: Annotated[
        bool,
        typer.Option("--to-source-partition", help="To the partition where it was read, not that of its key."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Also what was sent back before.")] = False,
    dry_run: DryRun = False,
    reason: Reason = "replayed with `millrace dlq replay`",
) -> None:
    """Send dead-letter records back to their input topics, each exactly once."""
    from millrace.operations import dead_letters

    quiet()
    with progress(f"replaying dead-letter records of {name}") as report:
        outcome = dead_letters.replay_dead_letter_records(
            application_named(name),
            selection=_selection(since, until, error, topic, letters),
            to_source_partition=to_source_partition,
            force=force,
            dry_run=dry_run,
            reason=reason,
            progress=report,
        )
    _print(outcome)


@app.command(epilog="Example: [bold]millrace dlq purge fraud-detection --before 2026-03-01T00:00:00 --dry-run[/]")
def purge(
    name: Name,
    *,
    before: Annotated[
        str | None, typer.Option(metavar="TIME", help="Up to the first dead-letter record of this time or later; UTC.")
    ] = None,
    before_letter: Annotated[
        str | None,
        typer.Option(metavar=POSITION, help="Up to this one, which stays; other partitions stay as they are."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that are there now.")] = False,
    dry_run: DryRun = False,
    reason: Reason = "purged with `millrace dlq purge`",
) -> None:
    """Delete dead-letter records for good."""
    from millrace.operations import dead_letters
    from millrace.operations.reset import parse_time

    if sum((before is not None, before_letter is not None, everything)) != 1:
        raise typer.BadParameter("give one of --before, --before-letter and --all")
    quiet()
    with progress(f"purging dead-letter records of {name}") as report:
        outcome = dead_letters.purge_dead_letter_records(
            application_named(name),
            before_offset=None if before_letter is None else dead_letters.parse_record_position(before_letter),
            before_ms=None if before is None else parse_time(before),
            dry_run=dry_run,
            reason=reason,
            progress=report,
        )
    _print(outcome)


def _selection(
    since: str | None, until: str | None, error: str, topic: str | None, positions: list[str] | None = None
) -> Selection:
    from millrace.operations.dead_letters import Selection, parse_record_position
    from millrace.operations.reset import parse_time

    return Selection(
        since_ms=None if since is None else parse_time(since),
        until_ms=None if until is None else parse_time(until),
        error=error,
        topic=topic,
        positions=frozenset(parse_record_position(each) for each in positions or ()),
    )


def _print(outcome: Outcome) -> None:
    print_outcome(outcome)
    for line in outcome.results.get("check", {}).get("checks", ()):
        out.print(f"  checked: {line}", markup=False)


def _document(known: ListedDeadLetterRecord) -> dict[str, Any]:
    record = known.record
    return {
        "letter": record.name,
        "read_from": {"topic": record.topic, "partition": record.source_partition, "offset": record.source_offset},
        "timestamp": record.timestamp,
        "time": _time(record.timestamp),
        "error": record.error,
        "message": record.message,
        "stacktrace": record.stacktrace,
        "key": _readable(record.key),
        "value": _readable(record.value),
        "headers": [[name, _readable(value)] for name, value in record.headers],
        "replayed": None if known.replayed is None else {"by": known.replayed.operation, "at": known.replayed.at},
    }


def _readable(value: bytes | None) -> str | dict[str, str] | None:
    import base64

    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _text(value: bytes | None) -> str:
    return "" if value is None else repr(value)[2:-1][:60]


def _time(timestamp: int) -> str:
    from datetime import UTC, datetime

    if timestamp < 0:
        return ""
    if timestamp > _LATEST_DATE_MS:
        return f"{timestamp} ms"
    return datetime.fromtimestamp(timestamp / 1000, UTC).isoformat(timespec="milliseconds")
