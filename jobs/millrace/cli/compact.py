"""The command ``millrace compact``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from millrace.cli.applications import application_named
from millrace.cli.audit import Budget, seconds
from millrace.cli.console import messages, out, progress
from millrace.cli.environment import fill_in_environment

if TYPE_CHECKING:
    from millrace.operations.outcome import Outcome


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(epilog="Example: [bold]millrace compact fraud-detection --budget 10m --dry-run[/]")(compact)


def compact(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the application, as in config/apps/NAME.yaml.")],
    *,
    budget: Budget = "10m",
    least_bytes: Annotated[int, typer.Option(min=0, help="Changelogs of fewer bytes are left alone.")] = 1 << 20,
    least_superfluous: Annotated[
        float, typer.Option(min=0, max=1, help="Share of superfluous records that makes a changelog worth it.")
    ] = 0.5,
    changelogs: Annotated[bool, typer.Option(help="Have the broker clean changelogs.")] = True,
    repartition_topics: Annotated[bool, typer.Option(help="Purge repartition topics.")] = True,
    stores: Annotated[bool, typer.Option(help="Rewrite the files of stores.")] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Look, and print the plan; change nothing.")] = False,
    reason: Annotated[
        str, typer.Option("--reason", help="Goes to the application's journal.")
    ] = "compacted with `millrace compact`",
) -> None:
    """Make changelogs, repartition topics and stores small now, beside the running application or of a stopped one.

    Killed midway, it goes on with `millrace operations resume NAME`, which puts the topics' settings back.
    """
    from millrace.operations.compaction import CompactionOptions
    from millrace.operations.compaction import compact as compact_application

    fill_in_environment()
    options = CompactionOptions(
        budget_s=seconds(budget),
        least_bytes=least_bytes,
        least_superfluous=least_superfluous,
        changelogs=changelogs,
        repartition_topics=repartition_topics,
        stores=stores,
    )
    with progress(f"compacting {name}") as report:
        outcome = compact_application(application_named(name), options, reason=reason, dry_run=dry_run, progress=report)
    _print(outcome)


def _print(outcome: Outcome) -> None:
    for step in outcome.steps:
        messages.print(f"  {step}", markup=False)
    if outcome.dry_run:
        out.print(f"{outcome.application}: would compact", markup=False)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("what", overflow="fold")
    for header in ("bytes before", "bytes after"):
        table.add_column(header, justify="right")
    for topic, sizes in outcome.results["check"]["topics"].items():
        table.add_row(topic, f"{sizes['before']:,}", f"{sizes['after']:,}")
    for task, each in outcome.results.get("stores", {}).get("tasks", {}).items():
        for store, after in each.get("bytes_after", {}).items():
            table.add_row(f"{store} of task {task}", f"{each['bytes_before'][store]:,}", f"{after:,}")
    out.print(table, soft_wrap=False)
    remaining = outcome.results.get("wait-for-cleaner", {}).get("waiting", [])
    if remaining:
        out.print(f"not cleaned in time: {', '.join(remaining)}", markup=False)
    for topic, why in outcome.results["check"]["passed_over"].items():
        out.print(f"left alone: {topic}: {why}", markup=False)
    out.print(f"{outcome.application}: compacted", markup=False)
