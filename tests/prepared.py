"""Processes that begin with everything imported: a command starts in milliseconds, and a test may kill it anywhere.

A server imports Millrace, opens nothing, and forks a child for each process. So what a child does, and what dies with
it, is that of a process which a user starts; only the seconds of imports are paid once.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from uuid import uuid4

from millrace.task.crash_points import DIRECTORY_VARIABLE

CONTEXT = multiprocessing.get_context("forkserver")
# The server is one for the whole process that runs tests, so that this is the only list.
CONTEXT.set_forkserver_preload(
    [
        __name__,
        "millrace.cli.application",
        "millrace.operations.compaction",
        "millrace.operations.dead_letters",
        "millrace.operations.reset",
        "millrace.operations.savepoints",
        "millrace.operations.standby",
        # With what the plans of generated scenarios refer to.
        "tests.parity.real_path.searching",
    ]
)
KILL_LIMIT_S = 240.0


def start(
    action: Callable[..., object], *arguments: object, environment: Mapping[str, str], log: Path
) -> ForkServerProcess:
    """Starts a process that does something and ends; it ends with this process at the latest.

    Args:
        action: a function of a module.
        arguments: of it; they can be pickled.
        environment: variables over those of this process.
        log: takes what it writes.
    """
    process = CONTEXT.Process(
        target=_act, args=(action, arguments, {**os.environ, **environment}, str(log)), daemon=True
    )
    process.start()
    return process


def millrace(*arguments: str) -> None:
    """The command ``millrace ...``, which ends the process."""
    from millrace.cli.application import main

    main(arguments)


def killed_at(
    point: str, action: Callable[..., object], *arguments: object, environment: Mapping[str, str], directory: Path
) -> None:
    """Does something in a process that dies at a crash point.

    Raises:
        AssertionError: it ended otherwise, or not in time; the message is what it wrote.
    """
    points = directory / f"killed-{uuid4().hex[:8]}"
    points.mkdir(parents=True)
    (points / point).write_text("")
    log = points.with_suffix(".log")
    process = start(action, *arguments, environment={**environment, DIRECTORY_VARIABLE: str(points)}, log=log)
    process.join(KILL_LIMIT_S)
    code = process.exitcode
    process.kill()
    assert code == -signal.SIGKILL, f"exit code {code}, not killed at {point}:\n{log.read_text()}"


def killed_at_every_step(
    operation: str,
    steps: Sequence[str],
    application: str,
    begin: tuple[Callable[..., object], *tuple[object, ...]],
    *,
    environment: Mapping[str, str],
    directory: Path,
) -> None:
    """Begins an operation and kills it as its first step begins; then resumes it again and again, and
    kills it whenever a step ends and the next one begins. Behind it the last step has ended and is not journaled.

    One operation meets every crash point that it has, so that each step runs twice: once until it is killed, and once
    because the journal does not say that it has ended.

    Args:
        operation: its kind, as in the names of its crash points.
        steps: all of its steps, in order.
        application: its name.
        begin: the function that begins it, and its arguments.
        environment: variables over those of this process; they name the installation.
        directory: for logs and crash points.
    """
    action = begin
    for step in steps:
        for moment in ("begins", "ends"):
            point = f"{operation}-{step}-{moment}"
            killed_at(point, *action, environment=environment, directory=directory)
            action = (millrace, "operations", "resume", application)


def _act(action: Callable[..., object], arguments: tuple[object, ...], environment: dict[str, str], log: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for output in (1, 2):
        os.dup2(descriptor, output)
    action(*arguments)
