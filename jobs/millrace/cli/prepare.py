"""The command ``millrace prepare``."""

from __future__ import annotations

import logging

import typer

from millrace.cli.console import messages, out
from millrace.logs import LogFormat, configure_logs


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(epilog="Example: [bold]millrace prepare[/]")(prepare)


def prepare() -> None:
    """Do once what every start would otherwise repeat: fetch the jars, record the classes that Kafka and Spark load.

    It takes about a minute, and nothing when it is done already. Drivers start without the record too, 4 s later.
    """
    from millrace.embedded.class_archive import make_broker_archive
    from millrace.spark.class_archive import make_class_archive
    from millrace.spark.launcher_archive import make_launcher_archive

    configure_logs(level=logging.WARNING, log_format=LogFormat.CONSOLE)

    def say(step: str) -> None:
        messages.print(step, markup=False)

    for make in (make_class_archive, make_broker_archive, make_launcher_archive):
        out.print(str(make(say)))
