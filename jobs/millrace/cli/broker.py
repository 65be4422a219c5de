"""``millrace broker``: the embedded broker, a real Apache Kafka in a Java process."""

from __future__ import annotations

import logging
import threading
from typing import Annotated

import typer

from millrace.cli.console import messages, out, progress
from millrace.logs import LogFormat, configure_logs

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="The embedded broker: one node of Apache Kafka (KRaft), with its data in the installation.",
    epilog="Example: [bold]millrace broker start[/]",
)

Port = Annotated[int | None, typer.Option(help="Port for clients. Default: the last one, or a free one.")]
Heap = Annotated[str, typer.Option(help="Heap of the broker's JVM.")]


@app.command(epilog="Example: [bold]millrace broker start --port 9092[/]")
def start(port: Port = None, heap: Heap = "512m") -> None:
    """Start the broker and leave it running. The first start downloads its jars."""
    from millrace.embedded.record import broker_status, start_detached

    _quiet()
    if broker_status().running:
        messages.print("it runs already")
    with progress("starting the broker") as report:
        status = start_detached(port=port, heap=heap, progress=report)
    out.print(status.bootstrap_servers)


@app.command(epilog="Example: [bold]millrace broker stop[/]")
def stop() -> None:
    """Stop the broker in order. Its data stays for the next start."""
    from millrace.embedded.record import stop_detached

    _quiet()
    with progress("stopping the broker"):
        stopped = stop_detached()
    out.print("stopped" if stopped else "it does not run")


@app.command(epilog="Example: [bold]millrace broker status[/]")
def status() -> None:
    """Say whether the broker runs, and where; exits with 1 if it does not answer."""
    from millrace.embedded.record import broker_status

    _quiet()
    found = broker_status()
    if found.process is None or not found.running:
        out.print("it does not run")
        raise typer.Exit(1)
    how = "answers" if found.answers else "does not answer"
    out.print(
        f"process {found.process.pid} {how} on {found.bootstrap_servers}; its data: {found.directory}", markup=False
    )
    raise typer.Exit(0 if found.answers else 1)


@app.command(epilog="Example: [bold]millrace broker run --port 9092[/]")
def run(port: Port = None, heap: Heap = "512m") -> None:
    """Run the broker until Ctrl-C or SIGTERM."""
    import signal

    from millrace.embedded.broker import EmbeddedBroker
    from millrace.embedded.record import broker_status, stop_detached, write_record
    from millrace.errors import OperationError
    from millrace.home import millrace_home

    _quiet()
    if broker_status().running:
        raise OperationError("The broker runs already.", remedy="stop it with `millrace broker stop`")
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    broker = EmbeddedBroker(millrace_home() / "broker", port=port, heap=heap)
    with progress("starting the broker") as report:
        broker.start(progress=report)
    write_record(broker)
    out.print(broker.bootstrap_servers)
    while broker.is_running() and not ended.wait(1.0):
        pass
    if not ended.is_set():
        raise OperationError("The broker ended by itself.", remedy=f"see {broker.log_file}")
    with progress("stopping the broker"):
        stop_detached()
        broker.stop()


def _quiet() -> None:
    configure_logs(level=logging.WARNING, log_format=LogFormat.CONSOLE)
