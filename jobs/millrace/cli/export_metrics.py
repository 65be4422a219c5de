"""The command ``millrace export-metrics``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import orjson
import typer

from millrace.cli.console import messages, out, progress
from millrace.cli.environment import application_here, fill_in_environment, print_difference

PARTS_FAILED = 1

Url = Annotated[
    str | None, typer.Option("--pushgateway", metavar="URL", help="Push to it, for example http://127.0.0.1:9091.")
]
File = Annotated[
    Path | None,
    typer.Option(
        "--text-file",
        metavar="PATH",
        help="Replace that file: Prometheus' text format where it ends in .prom, otherwise OpenMetrics.",
    ),
]
Instance = Annotated[
    str | None,
    typer.Option("--instance", help="Names this installation in the Pushgateway. Default: the name of the host."),
]


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "export-metrics", epilog="Example: [bold]millrace export-metrics --pushgateway http://127.0.0.1:9091[/]"
    )(export_metrics)


def export_metrics(
    *,
    pushgateway: Url = None,
    text_file: File = None,
    instance: Instance = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Work out the metrics that no process serves, of every deployed application, and hand them to Prometheus.

    Without a target they are printed. What an earlier export left of applications that are gone is removed. It exits
    with 1 when parts could not be had; the others are exported all the same.
    """
    from millrace.insight.export import MetricsTarget, Pushgateway, TextFile
    from millrace.insight.export import export_metrics as export
    from millrace.insight.export.series import text_format
    from millrace.install.home import Home
    from millrace.install.which_spec import Use

    fill_in_environment()
    targets: list[MetricsTarget] = []
    if pushgateway is not None:
        targets.append(Pushgateway(pushgateway, instance) if instance else Pushgateway(pushgateway))
    if text_file is not None:
        targets.append(TextFile(text_file))
    home = Home.from_environment()
    print_difference(Use.RUNNING, *(application_here(name) for name in home.deployed()))
    with progress("exporting metrics") as on_progress:
        report = export(home, targets, progress=on_progress)
    if as_json:
        out.print(orjson.dumps(report.summary(), option=orjson.OPT_INDENT_2).decode(), markup=False)
    elif not targets:
        groups = {each.application: each.samples for each in report.applications}
        out.print(text_format(groups).decode(), markup=False, end="")
    else:
        for each in report.applications:
            out.print(f"{each.application}: {len(each.samples)} series", markup=False)
        for name in report.removed:
            out.print(f"{name}: removed, as it is gone", markup=False)
    for problem in report.problems:
        messages.print(problem, markup=False)
    raise typer.Exit(PARTS_FAILED if report.problems else 0)
