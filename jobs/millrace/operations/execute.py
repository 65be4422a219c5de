"""The execution of operations, step by step, and of one that was killed or has failed from where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import structlog

from millrace.errors import MillraceError, OperationError
from millrace.files import lock_file, unlock_file
from millrace.install.application import Application
from millrace.install.files import append_journal
from millrace.install.home import ApplicationDirectory, Home
from millrace.install.locks import application_lock
from millrace.operations.action import Action
from millrace.operations.journal import (
    OperationJournal,
    OperationRecord,
    OperationState,
    operations_of,
    refusal,
    unfinished_operation,
)
from millrace.operations.operation import OperationPlan, StepContext, steps_of
from millrace.operations.outcome import Outcome
from millrace.operations.requester import OperationStoppedError, current_requester
from millrace.task.crash_points import crash_here

log = structlog.get_logger(__name__)

Progress = Callable[[str], None]

_LOOK_S = 0.5
"""How long the lock of the executing process is tried, seconds: who looks whether it is held, holds it for a moment."""


def perform(home: Home, plan: OperationPlan, *, dry_run: bool = False, progress: Progress = lambda _: None) -> Outcome:
    """Executes a plan.

    Each step is journaled before and after. What was killed or has failed is resumed by :func:`resume`; until then
    no other operation begins, and where the plan holds the application, no process starts it.

    Args:
        home: the installation.
        plan: what was decided.
        dry_run: only say what the steps would do.
        progress: takes lines that say how far it is.

    Returns:
        What was done, a line for each step; ``results`` has what the steps returned.

    Raises:
        OperationError: another operation on the application runs or has not ended.
        OperationStoppedError: its requester cancelled it (:func:`on_behalf_of`); it can be resumed.
        MillraceError: a step failed; the operation can be resumed.
    """
    steps = steps_of(plan)
    if dry_run:
        return _outcome(plan, Action.PLAN, tuple(step.text for step in steps), dry_run=True)
    directory = home.application(plan.application)
    with _running(directory, plan.operation):
        with application_lock(directory):
            if (unfinished := unfinished_operation(directory)) is not None:
                raise refusal(unfinished, what=plan.operation)
            operation_id = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-{plan.operation}"
            OperationJournal(directory, operation_id).begin(plan, requested_by=current_requester().name)
            append_journal(directory, plan.operation, "begun", id=operation_id, reason=plan.reason)
        return _execute(home, operation_id, plan, {}, progress)


def resume(application: Application, *, progress: Progress = lambda _: None) -> Outcome:
    """Resumes the operation that was killed or has failed, at the step that it did not complete.

    Raises:
        OperationError: there is none, or it runs in another process.
        MillraceError: a step failed; the operation can be resumed again.
    """
    directory = application.directory
    with _running(directory, "resume"):
        record = _unfinished(directory)
        append_journal(directory, record.plan.operation, "resumed", id=record.id, after=list(record.results))
        return _execute(application.home, record.id, record.plan, dict(record.results), progress)


def resume_or(application: Application, begin: Callable[[], Outcome], *, reported: str = "") -> Outcome:
    """Resumes the operation that a requester began before it was killed, or begins it.

    Args:
        application: which.
        begin: begins the operation; runs only where this requester (:func:`on_behalf_of`) has none that is unfinished,
            and none that was completed without its knowledge.
        reported: id of the operation whose completion the requester knows of.

    Returns:
        The outcome; of an operation that was completed earlier, what its journal has.

    Raises:
        MillraceError: as :func:`resume` and ``begin``.
    """
    requester = current_requester()
    own = [each for each in operations_of(application.directory) if each.requested_by == requester.name]
    if not requester.name or not own or own[-1].id == reported:
        return begin()
    if own[-1].state is OperationState.UNFINISHED:
        return resume(application, progress=requester.progress)
    if own[-1].state is OperationState.COMPLETED:
        plan = own[-1].plan
        return _outcome(plan, Action.PERFORM, tuple(step.text for step in steps_of(plan)), results=own[-1].results)
    return begin()


def abandon(application: Application, *, reason: str) -> OperationRecord:
    """Abandons the operation that was killed or has failed; what it has done until then stays done.

    Raises:
        OperationError: there is none, or it runs in another process.
    """
    directory = application.directory
    with _running(directory, "abandon"):
        record = _unfinished(directory)
        OperationJournal(directory, record.id).end(OperationState.ABANDONED, reason)
        append_journal(directory, record.plan.operation, "abandoned", id=record.id, reason=reason)
        return record


def _execute(
    home: Home, operation_id: str, plan: OperationPlan, results: dict[str, Mapping[str, Any]], progress: Progress
) -> Outcome:
    directory = home.application(plan.application)
    journal = OperationJournal(directory, operation_id)
    context = StepContext(home=home, id=operation_id, plan=plan, results=results, progress=progress)
    steps, done = steps_of(plan), []
    current_requester().on_plan(operation_id, [step.text for step in steps])
    for step in steps:
        done.append(step.text)
        if step.name in results:
            continue
        if current_requester().is_cancelled():
            append_journal(directory, plan.operation, "stopped", id=operation_id, before=step.name)
            raise OperationStoppedError(
                f"The {plan.operation} of {plan.application} was stopped before step {step.name}, as asked.",
                remedy=f"resume it with `millrace operations resume {plan.application}`, or abandon it",
            )
        progress(step.text)
        journal.step_begins(step.name)
        crash_here(f"{plan.operation}-{step.name}-begins")
        try:
            result = dict(step.run(context) or {})
        except MillraceError as error:
            journal.step_failed(step.name, error.message)
            append_journal(directory, plan.operation, "failed", id=operation_id, step=step.name, error=error.message)
            raise
        crash_here(f"{plan.operation}-{step.name}-ends")
        journal.step_is_done(step.name, result)
        results[step.name] = result
        log.info("step done", operation=plan.operation, application=plan.application, step=step.name)
    journal.end(OperationState.COMPLETED, "")
    append_journal(directory, plan.operation, "completed", id=operation_id)
    return _outcome(plan, Action.PERFORM, tuple(done), results=results)


def _outcome(
    plan: OperationPlan,
    action: Action,
    steps: tuple[str, ...],
    *,
    dry_run: bool = False,
    results: Mapping[str, Mapping[str, Any]] | None = None,
) -> Outcome:
    return Outcome(
        application=plan.application,
        operation=plan.operation,
        action=action,
        text=plan.reason,
        dry_run=dry_run,
        steps=steps,
        results=results or {},
    )


def _unfinished(directory: ApplicationDirectory) -> OperationRecord:
    record = unfinished_operation(directory)
    if record is None:
        raise OperationError(
            f"No operation of {directory.application} is unfinished.",
            remedy=f"see them with `millrace operations list {directory.application}`",
        )
    return record


@contextmanager
def _running(directory: ApplicationDirectory, what: str) -> Iterator[None]:
    """Holds the lock of the process that executes an operation; the kernel gives it back when that dies.

    Apart from the application's lock, which the steps themselves need for stopping and starting it.
    """
    descriptor = lock_file(directory.operations_lock, timeout_s=_LOOK_S)
    if descriptor is None:
        record = unfinished_operation(directory)
        raise OperationError(
            f"Cannot {what} {directory.application}: another process executes {record or 'an operation'}.",
            remedy="wait until it has ended",
        )
    try:
        yield
    finally:
        unlock_file(descriptor)
