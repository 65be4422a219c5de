"""Ending and launching the driver within an operation, and waiting for it. Each function is safe to repeat."""

from __future__ import annotations

import time

from millrace.errors import MillraceError
from millrace.install.locks import application_lock
from millrace.install.record import DesiredState, JobRecord, read_record, write_record
from millrace.install.spec import SpecFile
from millrace.launch.driver import adopt_unrecorded_driver, end_driver, launch_driver, stop_limits
from millrace.launch.observation import Verdict
from millrace.launch.observe import observe
from millrace.operations import StepContext
from millrace.supervise.readiness import cause_of_failure, is_proven, mark_good, why_not_proven
from millrace.supervise.upgrade.plan import ROLLBACK
from millrace.supervise.upgrade.results import DriverResult

_POLL_S = 0.5

ASKED_TO_STOP = "it was asked to stop"


def end(context: StepContext, *, owner: str = "") -> DriverResult:
    """End the driver; the wish that the application runs is written first, so that it can be told when that changes.

    Raises:
        OperationError: something survived SIGKILL.
    """
    directory, operation = context.directory, context.plan.operation
    with application_lock(directory):
        record = adopt_unrecorded_driver(directory, _record(context), operation=operation)
        record = record.with_changes(desired=DesiredState.RUNNING, stop_cause=None, owner=owner or record.owner)
        write_record(directory, record)
        if record.driver is None:
            return DriverResult()
        steps = end_driver(directory, record.driver, limits=stop_limits(directory), operation=operation)
        return DriverResult(steps=steps)


def go_back(context: StepContext, spec: SpecFile, *, rejects: str) -> DriverResult:
    """End the driver, and write that what runs next is an older specification, unless a stop was asked for meanwhile.

    Args:
        context: of the step.
        spec: the older one; what restores state goes by it from now on.
        rejects: hash of the specification that supervision leaves alone from now on.

    Raises:
        OperationError: something survived SIGKILL.
    """
    if context.plan.operation != ROLLBACK and _record(context).desired is DesiredState.STOPPED:
        return DriverResult(stopped=True)
    result = end(context)
    with application_lock(context.directory):
        spec.save(context.directory.spec)
        record = _record(context).with_changes(spec_hash=spec.hash, rejected_hash=rejects, savepoint="")
        write_record(context.directory, record)
    return result


def launch(context: StepContext, spec: SpecFile, *, savepoint: str = "") -> DriverResult:
    """Launch the driver, unless the application was asked to stop since the operation began.

    Args:
        context: of the step.
        spec: what is launched.
        savepoint: name of the savepoint that was taken before.

    Raises:
        OperationError: it could not be started.
    """
    directory, operation = context.directory, context.plan.operation
    with application_lock(directory):
        record = adopt_unrecorded_driver(directory, _record(context), operation=operation)
        if record.desired is DesiredState.STOPPED:
            return DriverResult(stopped=True)
        if not (record.is_driver_alive(directory) and record.spec_hash == spec.hash):
            record = launch_driver(
                directory,
                spec,
                record,
                operation=operation,
                restarts=0,
                reason=context.plan.reason,
                within=context.id,
            )
        if savepoint and record.savepoint != savepoint:
            record = record.with_changes(savepoint=savepoint)
            write_record(directory, record)
        return DriverResult(driver=record.driver.name if record.driver else None)


def wait_until_healthy(context: StepContext, *, timeout_s: float) -> DriverResult:
    """Wait until the driver that was launched is proven, dead, unhealthy or late.

    Args:
        context: of the step.
        timeout_s: counted from the launch, seconds.

    Returns:
        Whether it is healthy, and the end of its log where it is not; or that it was asked to stop, or that another
        installation has taken it over.
    """
    directory, name = context.directory, context.plan.application
    deadline = _record(context).launched_at + timeout_s
    shown = ""
    while True:
        observation = observe(context.application)
        if observation.desired is DesiredState.STOPPED:
            return DriverResult(healthy=False, stopped=True, text=ASKED_TO_STOP)
        if observation.verdict is Verdict.FENCED:
            # A way back would launch a driver that takes the application away from the one that has taken it over.
            return DriverResult(healthy=False, stopped=True, fenced=True, text=observation.text)
        if is_proven(observation):
            with application_lock(directory):
                mark_good(directory)
            return DriverResult(healthy=True, text=observation.text)
        late = time.time() >= deadline
        if late or observation.verdict not in {Verdict.WAITING, Verdict.STALLED, Verdict.HEALTHY}:
            when = f"{timeout_s:g} s after its launch" if late else "after its launch"
            cause = cause_of_failure(directory, observation)
            return DriverResult(healthy=False, text=f"{when}: {cause.rstrip('.')}")
        if (now := why_not_proven(observation)) != shown:
            shown = now
            context.progress(f"waiting until {name} is healthy: {shown}")
        time.sleep(_POLL_S)


def launch_or_say_why(context: StepContext, spec: SpecFile, *, savepoint: str) -> DriverResult:
    """As :func:`launch`; where it cannot be started, ``failed`` says why: for where there is a way back."""
    try:
        return launch(context, spec, savepoint=savepoint)
    except MillraceError as error:
        return DriverResult(failed=error.message)


def _record(context: StepContext) -> JobRecord:
    record = read_record(context.directory)
    assert record is not None, "operations that launch are planned for deployed applications only"
    return record
