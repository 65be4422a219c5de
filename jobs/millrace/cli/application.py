"""The command line itself: its commands, how it fails, and how it exits.

Modules that take long to import (Airflow is never needed, Spark and Arrow often not) are imported by the commands that
use them, so that ``millrace --help`` answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from millrace.cli import (
    acls,
    applications,
    audit,
    broker,
    canary,
    compact,
    dead_letters,
    drill,
    export_metrics,
    init,
    manifests,
    operations,
    plan,
    prepare,
    query,
    reset,
    savepoint,
    standby,
    topics,
    topology,
)
from millrace.cli.console import show_error

FAILED = 1
INTERRUPTED = 130

app = typer.Typer(
    name="millrace",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Kafka Streams for Python people who run Spark and Airflow.",
    epilog="Example: [bold]millrace broker start && millrace deploy fraud-detection && millrace status[/]",
)


@app.callback()
def _options(
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show the traceback of an error. May stand anywhere in the line.")
    ] = False,
) -> None:
    # Taken out of the line before it is parsed, see main(); it is declared for the help.
    del verbose


init.add_to(app)
applications.add_to(app)
topology.add_to(app)
plan.add_to(app)
acls.add_to(app)
audit.add_to(app)
compact.add_to(app)
export_metrics.add_to(app)
prepare.add_to(app)
manifests.add_to(app)
drill.add_to(app)
standby.add_to(app)
query.add_to(app)
reset.add_to(app)
app.add_typer(broker.app, name="broker")
app.add_typer(canary.app, name="canary")
app.add_typer(dead_letters.app, name="dlq")
app.add_typer(operations.app, name="operations")
app.add_typer(savepoint.app, name="savepoint")
app.add_typer(topics.app, name="topics")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and ends the process.

    It exits with 0 when all is well, 1 when something failed (one line on standard error says what, and the remedy),
    2 for a wrong command line, 3 for a driver that a newer one took over from, 4 for a status that shows an application
    which commits nothing, and 130 after Ctrl-C.

    Args:
        arguments: those of the process by default.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    verbose = "--verbose" in given
    sys.exit(run([argument for argument in given if argument != "--verbose"], verbose=verbose))


def run(arguments: list[str], *, verbose: bool) -> int:
    """Returns the exit code of one command line."""
    try:
        app(arguments, prog_name="millrace")
    except SystemExit as ending:
        return _exit_code(ending.code)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (`head`, say) has seen enough.
        sys.stderr.close()
        return FAILED
    except Exception as error:
        show_error(error, verbose=verbose)
        return FAILED
    return 0


def _exit_code(code: Any) -> int:
    if code is None:
        return 0
    return code if isinstance(code, int) else FAILED
