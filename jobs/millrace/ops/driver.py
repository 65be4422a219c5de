"""Starting and ending a driver under the application's lock: what deploy, stop and reconcile share."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, replace

import structlog

from millrace.errors import MillraceError, OperationError
from millrace.ops.control_client import request_stop
from millrace.ops.files import append_journal
from millrace.ops.home import ApplicationDirectory
from millrace.ops.launchers import launcher_of_kind
from millrace.ops.launchers.base import OPERATION_VARIABLE, is_driver_lock_held
from millrace.ops.launchers.session import (
    find_driver,
    session_members,
    signal_session,
    wait_until_session_is_gone,
)
from millrace.ops.record import DesiredState, JobRecord, StopCause, write_record
from millrace.ops.spec import SpecFile, load_spec
from millrace.processes import ProcessIdentity

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class StopLimits:
    """How long each step of ending a driver may take.

    Args:
        graceful_s: time to commit and end after it was asked, seconds; 0 does not ask.
        terminate_s: time to end after SIGTERM, seconds.
        kill_s: time for the kernel to end everything after SIGKILL, seconds.
    """

    graceful_s: float = 60.0
    terminate_s: float = 10.0
    kill_s: float = 10.0


UNRESPONSIVE = StopLimits(graceful_s=0.0, terminate_s=3.0)
"""For a driver that does not answer: asking it would only cost time."""


def stop_limits(directory: ApplicationDirectory) -> StopLimits:
    """The limits that the last good specification sets, else the defaults."""
    try:
        return StopLimits(graceful_s=load_spec(directory.spec).health.stop_timeout_s)
    except MillraceError:
        # The driver must be ended also when its specification cannot be read.
        return StopLimits()


def launch_driver(
    directory: ApplicationDirectory,
    spec: SpecFile,
    record: JobRecord,
    *,
    operation: str,
    restarts: int,
    reason: str,
    within: str = "",
) -> JobRecord:
    """Start the driver and record it; the caller holds the application's lock and has ended the former driver.

    If the caller is killed between the start and the record, the driver holds ``driver.lock``, and the next operation
    finds and adopts it: there are never two. A driver that was launched ``within`` an operation in steps starts
    although that operation holds the application.

    Raises:
        OperationError: it could not be started.
        ConfigurationError: the launcher lacks something.
    """
    launcher = launcher_of_kind(spec.spec.launcher.kind)
    launch = launcher.plan(spec.spec, directory)
    launch = replace(launch, environment={**launch.environment, OPERATION_VARIABLE: within})
    spec.save(directory.spec)
    if spec.hash != record.spec_hash:
        # What was taken before another one was launched is nothing to go back to from this one.
        record = record.with_changes(savepoint="")
    wanted = record.with_changes(
        desired=DesiredState.RUNNING,
        process=None,
        rejected_hash="" if record.rejected_hash == spec.hash else record.rejected_hash,
        spec_hash=spec.hash,
        launcher=launcher.kind,
        launched_at=time.time(),
        restarts=restarts,
        stop_cause=None,
        last_reason=reason,
        not_before=0.0,
    )
    write_record(directory, wanted)
    append_journal(directory, operation, "launch", reason=reason, restarts=restarts, owner=record.owner)
    launched = wanted.with_changes(process=launcher.start(launch, directory))
    write_record(directory, launched)
    append_journal(directory, operation, "launched", pid=launched.process.pid if launched.process else None)
    return launched


def adopt_unrecorded_driver(directory: ApplicationDirectory, record: JobRecord, *, operation: str) -> JobRecord:
    """The record, completed by a driver that lives and that it does not name.

    Raises:
        OperationError: such a driver lives and cannot be found.
    """
    if record.is_process_alive() or not is_driver_lock_held(directory):
        return record
    process = find_driver(directory)
    if process is None:
        raise OperationError(
            f"Something holds {directory.driver_lock}, and no driver of {directory.application} can be found.",
            remedy=f"see who it is with `fuser {directory.driver_lock}` and end it",
        )
    adopted = record.with_changes(process=process)
    write_record(directory, adopted)
    append_journal(directory, operation, "adopted", pid=process.pid)
    return adopted


def end_driver(
    directory: ApplicationDirectory, process: ProcessIdentity, *, limits: StopLimits, operation: str
) -> tuple[str, ...]:
    """End a driver and all that it brought along: ask it, then SIGTERM, then SIGKILL.

    What a driver leaves when it dies (its JVM, Python workers) is ended too. Idempotent. The caller holds the
    application's lock.

    Returns:
        The steps that were taken.

    Raises:
        OperationError: something survived SIGKILL.
    """
    steps: list[str] = []
    if process.is_alive() and limits.graceful_s > 0:
        refusal = request_stop(directory, process)
        steps.append(f"not asked: {refusal}" if refusal else "asked to stop")
        if not refusal and process.wait_until_gone(limits.graceful_s):
            steps.append("ended gracefully")
    for number, limit_s in ((signal.SIGTERM, limits.terminate_s), (signal.SIGKILL, limits.kill_s)):
        if not session_members(process.pid, directory):
            break
        # A stopped process takes SIGTERM only when it goes on.
        count = signal_session(process.pid, directory, number)
        steps.append(f"{number.name} to {count} processes")
        wait_until_session_is_gone(process.pid, directory, timeout_s=limit_s)
    # A process that is ending has given up its environment a moment before the kernel forgets it.
    process.wait_until_gone(limits.kill_s)
    left = session_members(process.pid, directory) or ([process] if process.is_alive() else [])
    append_journal(directory, operation, "ended", pid=process.pid, steps=steps, left=[member.pid for member in left])
    if left:
        raise OperationError(
            f"Processes {[member.pid for member in left]} of {directory.application} survived SIGKILL.",
            remedy="look at their state with `ps`; a process in state D waits for a disk or network file system",
        )
    log.info("driver ended", application=directory.application, pid=process.pid, steps=steps)
    return tuple(steps)


def end_of_log(directory: ApplicationDirectory, *, lines: int = 5) -> str:
    """The last lines of the driver's log, for an error message."""
    try:
        with directory.log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 8192))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return "(no log)"
    return " | ".join(line.strip() for line in text.splitlines()[-lines:])


def stopped(record: JobRecord, *, cause: StopCause, reason: str) -> JobRecord:
    """The record of a job that shall not run any more."""
    return record.with_changes(desired=DesiredState.STOPPED, stop_cause=cause, last_reason=reason)
