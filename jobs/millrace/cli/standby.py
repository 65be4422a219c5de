"""The commands of ``millrace standby``."""

from __future__ import annotations

import logging
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from millrace.cli.console import messages, out
from millrace.cli.environment import fill_in_environment, named_spec
from millrace.logs import LogFormat, configure_logs

if TYPE_CHECKING:
    from millrace.operations.standby import StandbyStatus


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(epilog="Example: [bold]millrace standby fraud-detection --state-dir /data/standby[/]")(standby)


def standby(
    spec: Annotated[str, typer.Argument(metavar="NAME", help="Name of the application, or its specification file.")],
    state_dir: Annotated[
        Path | None,
        typer.Option(
            help="Where the copies are kept; all tasks are copied then. Default: the application's state.dir, for the "
            "tasks that this host does not run.",
            file_okay=False,
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End when the copies have what there is now.")] = False,
    metrics_port: Annotated[int | None, typer.Option(min=1, help="Serve metrics to Prometheus on this port.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the last status as JSON.")] = False,
) -> None:
    """Keep copies of an application's stores on this host, so that its tasks need only a tail when they move here.

    Runs until Ctrl-C or SIGTERM. A copy is given up when the application asks for it; a standby that is killed goes on
    where it was. Its status is in STATE_DIR/APPLICATION/standby.json.
    """
    from millrace.driver.matched_topics import with_topics_read
    from millrace.dsl.loading import load_topology
    from millrace.install.launchers import refuse_state_elsewhere
    from millrace.install.which_spec import Use
    from millrace.operations.standby import Standby, StandbyOptions, run_standby

    configure_logs(level=logging.INFO, log_format=LogFormat.CONSOLE)
    fill_in_environment()
    loaded = named_spec(spec, Use.RUNNING).spec
    refuse_state_elsewhere(loaded, what="keep copies here for")
    config = loaded.streams_config()
    options = StandbyOptions(state_dir=state_dir, once=once, metrics_port=metrics_port)

    def stop_on_signals(running: Standby) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: running.stop())

    last = ""

    def report(status: StandbyStatus) -> None:
        nonlocal last
        text = _summary(status)
        if text != last:
            messages.print(text, markup=False)
            last = text

    topology = with_topics_read(load_topology(loaded.module, config), config)
    status = run_standby(config, topology, options, on_probe=report, on_start=stop_on_signals)
    out.print(status.model_dump_json(indent=1) if as_json else _summary(status), markup=False)


def _summary(status: StandbyStatus) -> str:
    lag = "unknown" if status.lag is None else f"{status.lag:,}"
    behind = sum(not task.caught_up for task in status.tasks.values() if task.state == "copying")
    return f"{status.application_id}: {len(status.tasks)} tasks, {behind} catching up, lag {lag}"
