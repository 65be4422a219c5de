"""The execution of an upgrade, and of one whose process died from where it stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from millrace.errors import MillraceError
from millrace.files import lock_file, unlock_file
from millrace.install.application import Application
from millrace.install.files import append_journal
from millrace.install.home import ApplicationDirectory
from millrace.install.spec import SpecFile
from millrace.launch.observe import observe
from millrace.operations import OperationRecord, perform, resume, unfinished_operation
from millrace.operations.outcome import Outcome
from millrace.supervise.upgrade.plan import ROLLBACK, UPGRADE, UpgradePlan
from millrace.supervise.upgrade.results import Conclusion

Progress = Callable[[str], None]

_POLL_S = 0.05


def upgrade(
    application: Application,
    plan: UpgradePlan,
    *,
    reason: str,
    dry_run: bool = False,
    progress: Progress = lambda _: None,
) -> Outcome:
    """Executes a multi-step upgrade.

    Returns:
        The action ``upgrade``, ``rolled_back``, ``failed`` (what it was rolled back to is not healthy either) or
        ``stopped`` (it was asked to stop meanwhile).

    Raises:
        OperationError: another operation on the application runs or has not ended.
        MillraceError: a step failed. Where that was before anything was stopped, the upgrade is given up and what runs
            goes on; else it is resumed by :func:`millrace.operations.resume`, by a deployment of the same
            specification, or by the next reconcile.
    """
    operation = plan.operation(UPGRADE, application.name, reason)
    return executed(
        application, lambda: perform(application.home, operation, dry_run=dry_run, progress=progress), dry_run=dry_run
    )


def resume_upgrade(application: Application, *, progress: Progress = lambda _: None) -> Outcome | None:
    """Resumes an upgrade or rollback whose process died or that failed; ``None`` where there is none to resume.

    Raises:
        MillraceError: a step failed, as in :func:`upgrade`.
    """
    directory = application.directory
    unfinished = unfinished_operation(directory)
    if unfinished is None or unfinished.plan.operation not in {UPGRADE, ROLLBACK} or is_being_executed(directory):
        return None
    return executed(application, lambda: resume(application, progress=progress))


def is_upgrade_to(directory: ApplicationDirectory, spec: SpecFile) -> bool:
    """Returns whether an upgrade to this specification has been begun and has not ended."""
    return _goes_to(unfinished_operation(directory), spec)


def is_being_upgraded_to(directory: ApplicationDirectory, spec: SpecFile) -> bool:
    """Returns whether a living process executes an upgrade to this specification.

    A process that has just begun waits for the application's lock before it records what it executes: until then it is
    waited for.
    """
    while is_being_executed(directory):
        if (record := unfinished_operation(directory)) is not None:
            return _goes_to(record, spec)
        time.sleep(_POLL_S)
    return False


def _goes_to(record: OperationRecord | None, spec: SpecFile) -> bool:
    return record is not None and record.plan.operation == UPGRADE and UpgradePlan.of(record.plan).new.hash == spec.hash


def is_being_executed(directory: ApplicationDirectory) -> bool:
    """Returns whether a living process executes an operation of the application."""
    if not directory.operations_lock.exists():
        return False
    descriptor = lock_file(directory.operations_lock)
    if descriptor is None:
        return True
    unlock_file(descriptor)
    return False


def wait_for_running_operation(directory: ApplicationDirectory) -> None:
    """Returns once no living process executes an operation of the application."""
    descriptor = lock_file(directory.operations_lock, timeout_s=None)
    assert descriptor is not None
    unlock_file(descriptor)


def executed(application: Application, run: Callable[[], Outcome], *, dry_run: bool = False) -> Outcome:
    """Returns the conclusion of an upgrade or a rollback that ``run`` executes.

    It abandons one that failed before any change.
    """
    try:
        outcome = run()
    except MillraceError as error:
        _discard_unfinished(application, error)
        raise
    if dry_run:
        return outcome
    conclusion = Conclusion.model_validate(outcome.results["conclude"])
    return replace(outcome, action=conclusion.action, text=conclusion.text, observation=observe(application))


def _discard_unfinished(application: Application, error: MillraceError) -> None:
    directory = application.directory
    unfinished = unfinished_operation(directory)
    if unfinished is None or unfinished.plan.operation != UPGRADE or is_being_executed(directory):
        return
    taken = UpgradePlan.of(unfinished.plan).savepoint
    if taken is None or "savepoint-verify" in unfinished.results:
        return
    # Loads topologies, which DAG files, that import this module, must not wait for.
    from millrace.supervise.upgrade.state import give_savepoint_up

    append_journal(directory, UPGRADE, "given up", id=unfinished.id, error=error.message)
    give_savepoint_up(application, taken, error)
