"""Stop an application: gracefully within a limit, then by force; it stays stopped until it is deployed again."""

from __future__ import annotations

from millrace.install.application import Application
from millrace.install.files import append_journal
from millrace.install.locks import application_lock
from millrace.install.record import JobRecord, StopCause, write_record
from millrace.launch.driver import StopLimits, adopt_unrecorded_driver, end_driver, stop_limits, stopped
from millrace.operations.action import Action
from millrace.operations.outcome import Outcome


def stop(
    application: Application,
    *,
    cause: StopCause = StopCause.PLANNED,
    reason: str = "a stop was asked for",
    only_owner: str | None = None,
    limits: StopLimits | None = None,
    dry_run: bool = False,
) -> Outcome:
    """Stops the application's driver.

    The wish is written first: if the caller dies while it waits, supervision does not start the job again, and the next
    reconcile ends it.

    Args:
        application: which.
        cause: a planned stop, or a killed supervising task.
        reason: for the record and the journal.
        only_owner: do nothing unless this ``run_id/try_number`` still owns the job.
        limits: how long each step may take; by default what the specification says.
        dry_run: only say what would be done.

    Returns:
        What was done; stopping what is stopped or was never deployed does nothing.

    Raises:
        OperationError: another operation holds the lock for too long, or something is left of the driver.
    """
    directory = application.directory

    def outcome(action: Action, text: str, steps: tuple[str, ...] = ()) -> Outcome:
        return Outcome.observed(application, "stop", action, text, steps=steps, dry_run=dry_run)

    if application.record is None:
        return outcome(Action.NOTHING, "it was never deployed here")
    with application_lock(directory):
        record = application.record
        assert record is not None
        if only_owner is not None and record.owner != only_owner:
            return outcome(Action.NOTHING, f"{record.owner or 'no one'} owns the job, not {only_owner}")
        limits = limits or stop_limits(directory)
        if dry_run:
            alive = record.is_driver_alive(directory)
            return outcome(Action.STOP if alive else Action.NOTHING, reason, _plan(record if alive else None, limits))
        record = stopped(adopt_unrecorded_driver(directory, record, operation="stop"), cause=cause, reason=reason)
        write_record(directory, record)
        append_journal(directory, "stop", "stop wanted", reason=reason, cause=cause.value)
        if record.driver is None:
            return outcome(Action.NOTHING, "it has no driver")
        steps = end_driver(directory, record.driver, limits=limits, operation="stop")
        return outcome(Action.STOP if steps else Action.NOTHING, reason, steps)


def _plan(living: JobRecord | None, limits: StopLimits) -> tuple[str, ...]:
    if living is None or living.driver is None:
        return ("write that it should be stopped",)
    return (
        "write that it should be stopped",
        f"ask {living.driver.name} to stop and wait up to {limits.graceful_s:g} s",
        f"then end it by force: SIGTERM and {limits.terminate_s:g} s, then SIGKILL",
    )
