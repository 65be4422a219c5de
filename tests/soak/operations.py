"""Operations on the running application, and on a clone of it that is restored, reset and compared with the model."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from millrace.install.application import Application
from millrace.install.home import SPECS_VARIABLE
from millrace.operations import OperationState, operations_of, resume, stop, unfinished_operation
from millrace.operations.audit import audit
from millrace.operations.compaction import CompactionOptions, compact
from millrace.operations.reset import ResetOptions, reset
from millrace.operations.savepoints import (
    SavepointState,
    create_savepoint,
    list_savepoints,
    restore_savepoint,
    verify_savepoint,
)
from tests.application import ROOT, wait_until
from tests.soak.disturbances import Disturbance
from tests.soak.tally import Tally
from tests.soak.verdict import judge_final_output
from tests.soak.world import SoakWorld

KILLED_SHARE = 0.5
"""Share of the commands that are killed before they can have ended."""

RESUME_LIMIT_S = 180.0


def take_savepoint(world: SoakWorld, chance: random.Random, tally: Tally) -> None:
    """Takes one by the command line, which may be killed and is resumed then; the newest is read and checked."""
    _command(world, chance, tally, "savepoint", "create", world.application)
    newest = _newest_savepoint(world)
    if newest is not None:
        verify_savepoint(Application(world.home, world.application), newest)


def compact_logs(world: SoakWorld, chance: random.Random, tally: Tally) -> None:
    """Compacts everything, whether or not it is worth it, by hand in one half and killed and resumed in the other."""
    if chance.random() < KILLED_SHARE:
        _command(world, chance, tally, "compact", world.application)
        return
    options = CompactionOptions(budget_s=60.0, least_bytes=0, least_superfluous=0.0)
    _with_retries(world, lambda: compact(Application(world.home, world.application), options, reason="soak"))


def audit_stores(world: SoakWorld, _: random.Random, tally: Tally) -> None:
    """Every store equals its changelog while the application runs."""
    _audit(world, world.application, tally)


def restore_clone(world: SoakWorld, _: random.Random, tally: Tally) -> None:
    """Restores the newest savepoint as the clone, which then has to come to where the application is."""
    if _newest_savepoint(world) is None:  # what was killed early has left none
        _with_retries(world, lambda: create_savepoint(Application(world.home, world.application)))
    name = _newest_savepoint(world)
    assert name is not None
    restore_savepoint(Application(world.home, world.application), name, into=world.clone)
    _run_clone(world, tally, everything=False)


def reset_clone(world: SoakWorld, _: random.Random, tally: Tally) -> None:
    """Resets the clone to the beginning, where it has run, and has it process everything."""
    reset(Application(world.home, world.clone), options=ResetOptions(stop=True), reason="soak")
    _run_clone(world, tally, everything=True)


OPERATIONS: Mapping[str, Callable[[SoakWorld, random.Random, Tally], None]] = {
    "savepoint": take_savepoint,
    "compaction": compact_logs,
    "audit": audit_stores,
    "restore of the clone": restore_clone,
    "reset of the clone": reset_clone,
}


def operations(tally: Tally) -> tuple[Disturbance, ...]:
    """The operations as disturbances that count what they find."""

    def bound(name: str) -> Callable[[SoakWorld, random.Random], None]:
        return lambda world, chance: OPERATIONS[name](world, chance, tally)

    return tuple(Disturbance(name, 2, bound(name)) for name in OPERATIONS)


def _run_clone(world: SoakWorld, tally: Tally, *, everything: bool) -> None:
    """Deploys the clone, lets it catch up with the load that goes on, stops it and compares."""
    since = world.ends_of_outputs("clone-")
    world.deploy(world.clone)
    topic_partitions = world.inputs(world.clone)
    world.wait_until_committed(world.clone, topic_partitions)
    stop(Application(world.home, world.clone), reason="soak")
    read = world.committed(world.clone, topic_partitions)
    judge_final_output(
        world.bootstrap_servers,
        world.prefix,
        tally,
        outputs="clone-",
        since=since,
        read=read,
        everything=everything,
    )
    _audit(world, world.clone, tally)


def _audit(world: SoakWorld, application: str, tally: Tally) -> None:
    report = _with_retries(world, lambda: audit(Application(world.home, application)))
    assert not any(store.skipped for store in report.stores), report.document()
    tally.entries += sum(store.keys for store in report.stores)
    tally.wrong += sum(store.differences for store in report.stores)
    for difference in report.differences:
        tally.example(f"audit of {application}: {difference.document()}")


def _newest_savepoint(world: SoakWorld) -> str | None:
    complete = [
        each.name
        for each in list_savepoints(Application(world.home, world.application))
        if each.state is SavepointState.COMPLETED
    ]
    return complete[-1] if complete else None


def _command(world: SoakWorld, chance: random.Random, tally: Tally, *arguments: str) -> None:
    """Runs a command; perhaps kills it, and resumes what it has begun."""
    environment = {**os.environ, "MILLRACE_HOME": str(world.home.root), SPECS_VARIABLE: str(world.home.specs)}
    process = subprocess.Popen(
        [sys.executable, "-m", "millrace", *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        output, _ = process.communicate(timeout=chance.uniform(1.0, 8.0) if chance.random() < KILLED_SHARE else 300.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        tally.done[f"kill {arguments[0]}"] += 1
    else:
        assert process.returncode == 0, f"{' '.join(arguments)}: {output[-3000:]}"
    directory = world.home.application(world.application)
    if unfinished_operation(directory) is not None:
        _with_retries(world, lambda: None)
    assert all(each.state is not OperationState.UNFINISHED for each in operations_of(directory))


def _with_retries(world: SoakWorld, operation: Callable[[], Any]) -> Any:
    """Begins an operation, or goes on with the one that was begun, again while the application is not well enough."""
    directory = world.home.application(world.application)
    results: list[Any] = []

    def attempt() -> bool:
        unfinished = unfinished_operation(directory)
        results.append(operation() if unfinished is None else resume(Application(world.home, world.application)))
        return True

    wait_until(attempt, timeout_s=RESUME_LIMIT_S, what="an operation that goes through")
    return results[-1]
