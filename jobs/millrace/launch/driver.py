"""Starting and ending a driver under the application's lock: what deploy, stop and reconcile share."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import structlog

from millrace.errors import MillraceError, OperationError
from millrace.install.files import append_journal
from millrace.install.home import ApplicationDirectory
from millrace.install.launchers import launcher_of_kind
from millrace.install.launchers.base import OPERATION_VARIABLE
from millrace.install.launchers.instance import DriverInstance, EndLimits, Presence, is_alive
from millrace.install.record import DesiredState, JobRecord, StopCause, write_record
from millrace.install.spec import SpecFile, load_spec
from millrace.launch.control_client import request_stop
from millrace.launch.launched_code import code_of, keep_code

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class StopLimits(EndLimits):
    """How long each step of ending a driver may take, the graceful one included.

    Args:
        graceful_s: time to commit and end after it was asked, seconds; 0 does not ask.
    """

    graceful_s: float = 60.0


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

    If the caller is killed between the start and the record, the next operation finds the driver
    (:meth:`~millrace.install.launchers.Launcher.find`) and adopts it: there are never two. A driver that was launched
    ``within`` a multi-step operation starts although that operation holds the application.

    Raises:
        OperationError: it could not be started.
        ConfigurationError: the launcher lacks something.
    """
    launcher = launcher_of_kind(spec.spec.launcher.kind)
    launch = launcher.plan(spec.spec, directory)
    launch = replace(launch, environment={**launch.environment, OPERATION_VARIABLE: within})
    code = code_of(spec.spec)
    spec.save(directory.spec)
    keep_code(directory, code)
    if spec.hash != record.spec_hash:
        # What was taken before another one was launched is nothing to go back to from this one.
        record = record.with_changes(savepoint="")
    wanted = record.with_changes(
        desired=DesiredState.RUNNING,
        driver=None,
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
    driver = launcher.start(launch, directory)
    launched = wanted.with_changes(driver=driver)
    write_record(directory, launched)
    append_journal(directory, operation, "launched", driver=driver.name, **driver.to_mapping())
    return launched


def adopt_unrecorded_driver(directory: ApplicationDirectory, record: JobRecord, *, operation: str) -> JobRecord:
    """The record, completed by a driver that was launched and that it does not name.

    Nothing is looked for while it cannot be known whether the recorded one lives.

    Raises:
        OperationError: such a driver lives and cannot be found, or no process can be asked.
    """
    if record.driver is not None and record.driver.probe(directory).presence in {Presence.ALIVE, Presence.UNKNOWN}:
        return record
    driver = launcher_of_kind(record.launcher or "local").find(directory)
    if driver is None or driver == record.driver:
        return record
    adopted = record.with_changes(driver=driver)
    write_record(directory, adopted)
    append_journal(directory, operation, "adopted", driver=driver.name, **driver.to_mapping())
    return adopted


def end_driver(
    directory: ApplicationDirectory, driver: DriverInstance, *, limits: StopLimits, operation: str
) -> tuple[str, ...]:
    """End a driver and all that it brought along: ask it, then by force. Idempotent.

    The caller holds the application's lock.

    Returns:
        The steps that were taken.

    Raises:
        OperationError: something is left of it, or no process can be asked whether it lives.
    """
    steps: list[str] = []
    if is_alive(driver, directory) and limits.graceful_s > 0:
        refusal = request_stop(driver.probe(directory).control)
        steps.append(f"not asked: {refusal}" if refusal else "asked to stop")
        if not refusal and _wait_until_gone(directory, driver, timeout_s=limits.graceful_s):
            steps.append("ended gracefully")
    ended = driver.end(directory, limits)
    steps += ended.steps
    append_journal(
        directory, operation, "ended", driver=driver.name, **driver.to_mapping(), steps=steps, left=ended.left
    )
    if ended.left:
        raise OperationError(f"Of {directory.application} something is left: {ended.left}.", remedy=ended.remedy)
    log.info("driver ended", application=directory.application, driver=driver.name, steps=steps)
    return tuple(steps)


def _wait_until_gone(directory: ApplicationDirectory, driver: DriverInstance, *, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while driver.probe(directory).presence in {Presence.ALIVE, Presence.UNKNOWN}:
        if time.monotonic() >= deadline:
            return False
        time.sleep(driver.probe_interval_s)
    return True


def stopped(record: JobRecord, *, cause: StopCause, reason: str) -> JobRecord:
    """The record of a job that should not run any more."""
    return record.with_changes(desired=DesiredState.STOPPED, stop_cause=cause, last_reason=reason)
