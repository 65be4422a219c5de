"""The commands of ``millrace canary``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from millrace.cli.applications import DryRun, Name, Reason, application_named, print_outcome, quiet
from millrace.cli.console import out, progress
from millrace.cli.environment import application_here

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Run a new version beside an application, compare what both write, promote or drop it.",
    epilog="Example: [bold]millrace canary compare fraud-detection[/]",
)


@app.command(epilog="Example: [bold]millrace canary start fraud-detection --spec new/fraud-detection.yaml[/]")
def start(
    name: Name,
    *,
    spec: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="The new specification of the application.")],
    starts: Annotated[
        list[str] | None,
        typer.Option(
            "--start",
            metavar="TOPIC=WHERE",
            help="Where an input topic starts that only the new version reads: earliest, latest, or with "
            "TOPIC:PARTITION an offset. May be given several times.",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option(help="Wait until it processes what arrives.")] = True,
    dry_run: DryRun = False,
    reason: Reason = "started with `millrace canary start`",
) -> None:
    """Start NAME-canary: a clone with the same state, on the same input, with the new version and topics of its own."""
    from millrace import supervise
    from millrace.supervise import canary
    from millrace.supervise.canary.clone import clone_of

    quiet()
    application = application_named(name)
    with progress(f"starting a canary of {name}") as report:
        outcome = canary.start(application, spec, starts=starts or (), reason=reason, dry_run=dry_run, progress=report)
    print_outcome(outcome)
    if wait and not dry_run:
        observation = supervise.wait_until_ready(application_here(clone_of(name)))
        out.print(f"{clone_of(name)} is ready: {observation.text}", markup=False)


@app.command(epilog="Example: [bold]millrace canary compare fraud-detection --every-record[/]")
def compare(
    name: Name,
    *,
    every_record: Annotated[
        bool, typer.Option("--every-record", help="Count every record, not only the last value of each key.")
    ] = False,
    wait: Annotated[
        float, typer.Option(min=0.0, help="Longest wait until both have processed the same input, seconds.")
    ] = 60.0,
    limit: Annotated[int, typer.Option(min=0, help="Differences to print.")] = 20,
) -> None:
    """Compare what the application and its canary have written. It exits with 1 where they differ."""
    from millrace.supervise import canary

    quiet()
    with progress(f"comparing {name} with its canary") as report:
        found = canary.compare(application_named(name), every_record=every_record, wait_s=wait, progress=report)
    for each in found.differences[:limit]:
        out.print(f"{each.topic} {each.key!r}: {each.text}", markup=False)
    if not found.at_rest:
        out.print("one of them has not processed all input: what it has not come to yet may show as different")
    ours, theirs = found.records
    out.print(
        f"{len(found.differences)} differences; {found.keys} keys, {ours} records of {name}, {theirs} of its canary",
        markup=False,
    )
    raise typer.Exit(0 if found.agrees else 1)


@app.command(epilog="Example: [bold]millrace canary promote fraud-detection[/]")
def promote(name: Name, dry_run: DryRun = False, reason: Reason = "promoted with `millrace canary promote`") -> None:
    """Deploy the application with the canary's version, and back if it is not healthy in time. The canary goes on."""
    from millrace.supervise import canary

    quiet()
    with progress(f"promoting the canary of {name}") as report:
        outcome = canary.promote(application_here(name), reason=reason, dry_run=dry_run, progress=report)
    print_outcome(outcome)
    if outcome.action.leaves_new_one_down:
        raise typer.Exit(1)


@app.command(epilog="Example: [bold]millrace canary drop fraud-detection --dry-run[/]")
def drop(name: Name, dry_run: DryRun = False, reason: Reason = "dropped with `millrace canary drop`") -> None:
    """Stop the canary, and delete its topics, group, stores and specification; nothing of the application."""
    from millrace.supervise import canary

    quiet()
    with progress(f"dropping the canary of {name}") as report:
        outcome = canary.drop(application_here(name), reason=reason, dry_run=dry_run, progress=report)
    print_outcome(outcome)
