"""The command ``millrace audit``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import orjson
import typer
from rich.table import Table

from millrace.cli.applications import application_named
from millrace.cli.console import out, progress
from millrace.cli.environment import fill_in_environment

if TYPE_CHECKING:
    from millrace.operations.audit import AuditReport

DIFFERS = 1
_UNITS_S = {"s": 1, "m": 60, "h": 3600}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smh])")


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(epilog="Example: [bold]millrace audit fraud-detection --sample 0.1 --budget 10m[/]")(audit)


def seconds(text: str) -> float:
    """Returns the seconds of a duration such as ``90s``, ``10m`` or ``1h``."""
    found = _DURATION.fullmatch(text)
    if found is None or float(found[1]) == 0:
        raise typer.BadParameter(f"{text!r} is no duration such as 90s, 10m or 1h")
    return float(found[1]) * _UNITS_S[found[2]]


Budget = Annotated[str, typer.Option("--budget", metavar="10m", help="Longest time, as 90s, 10m or 1h.")]


def audit(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the application, as in config/apps/NAME.yaml.")],
    *,
    sample: Annotated[float, typer.Option(help="Share of the keys, above 0 and up to 1.")] = 1.0,
    budget: Budget = "10m",
    store: Annotated[list[str] | None, typer.Option(help="Name of a store; repeatable. Default: all.")] = None,
    listed: Annotated[int, typer.Option(min=0, help="How many differences are listed by key.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare each store with a replay of its changelog, beside the running application or of a stopped one.

    It exits with 1 when something differs.
    """
    from millrace.operations.audit import AuditOptions
    from millrace.operations.audit import audit as audit_application

    fill_in_environment()
    options = AuditOptions(sample=sample, budget_s=seconds(budget), stores=tuple(store or ()), listed=listed)
    with progress(f"auditing {name}") as on_progress:
        report = audit_application(application_named(name), options, progress=on_progress)
    if as_json:
        out.print(orjson.dumps(report.document(), option=orjson.OPT_INDENT_2).decode(), markup=False)
    else:
        _print(report)
    raise typer.Exit(0 if report.agrees else DIFFERS)


def _print(report: AuditReport) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in ("store", "task", "keys", "records", "differences", "skipped"):
        table.add_column(header, overflow="fold")
    for each in report.stores:
        counts = (str(each.keys), str(each.records), str(each.differences)) if not each.skipped else ("", "", "")
        table.add_row(each.store, each.task, *counts, each.skipped)
    out.print(table, soft_wrap=False)
    for difference in report.differences:
        known = {key: value for key, value in difference.document().items() if value not in (None, "")}
        out.print(orjson.dumps(known).decode(), markup=False)
    verdict = "all that was compared agrees" if report.agrees else "differences were found"
    held = f"; batches waited {report.held_s:.2f} s" if report.running else ""
    out.print(f"{report.application}: {verdict} ({report.took_s:.1f} s{held})", markup=False)
