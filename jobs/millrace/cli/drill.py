"""The command ``millrace recovery-drill``."""

from __future__ import annotations

from typing import Annotated

import typer

from millrace.cli.applications import DryRun, Name, Reason, application_named, print_outcome, quiet
from millrace.cli.console import progress


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("recovery-drill", epilog="Example: [bold]millrace recovery-drill fraud-detection-staging[/]")(drill)


def drill(
    name: Name,
    *,
    task: Annotated[str, typer.Option(help="For example 0_1. Default: one by chance, of those on this host.")] = "",
    timeout: Annotated[float, typer.Option(min=1.0, help="Longest time until it commits again, seconds.")] = 300.0,
    dry_run: DryRun = False,
    reason: Reason = "drilled with `millrace recovery-drill`",
) -> None:
    """Kill the worker process of a task, and measure how long it takes until the task commits again.

    Only of an application whose specification says `production: false`, and only while input arrives. The result goes
    to run/NAME/drills.jsonl. It exits with 1 when the task did not recover in time.
    """
    from millrace import operations

    quiet()
    with progress(f"drilling {name}") as report:
        outcome = operations.recovery_drill(
            application_named(name),
            task=task,
            timeout_s=timeout,
            reason=reason,
            dry_run=dry_run,
            progress=report,
        )
    print_outcome(outcome)
    if outcome.action is operations.Action.NOT_RECOVERED:
        raise typer.Exit(1)
