"""Taking a job under supervision, and telling whether one still has it."""

from __future__ import annotations

from millrace.install.application import Application
from millrace.install.files import append_journal
from millrace.install.locks import application_lock
from millrace.install.record import DesiredState, StopCause, write_record
from millrace.launch.driver import adopt_unrecorded_driver
from millrace.operations.action import Action
from millrace.operations.outcome import Outcome
from millrace.supervise.deploy import deploy
from millrace.supervise.reconcile import reconcile


def take_over_supervision(application: Application, *, owner: str) -> Outcome:
    """Becomes the owner of an application's job: adopts the one that runs, or starts it.

    A job that a planned stop ended stays stopped. One that was stopped because its supervising task was killed starts
    again, as clearing such a task asks for that.

    Args:
        application: which.
        owner: ``run_id/try_number`` of the supervising task.

    Returns:
        The action ``ADOPT``, ``STOPPED``, or that of the deployment or reconcile that it took.

    Raises:
        MillraceError: as :func:`~millrace.supervise.deploy.deploy` and :func:`~millrace.supervise.reconcile.reconcile`.
    """
    directory = application.directory
    record = application.record
    if record is None:
        return deploy(application, owner=owner, reason=f"first start, by {owner}")
    with application_lock(directory):
        record = application.record
        assert record is not None
        stopped = record.desired is DesiredState.STOPPED
        if stopped and record.stop_cause is not StopCause.TASK_KILLED:
            return Outcome.observed(application, "supervise", Action.STOPPED, record.last_reason)
        record = adopt_unrecorded_driver(directory, record, operation="supervise")
        write_record(directory, record.with_changes(owner=owner))
        append_journal(directory, "supervise", "owner", owner=owner, before=record.owner)
    if stopped:
        return deploy(application, owner=owner, reason=f"started again by {owner}", skip_rejected=True)
    outcome = reconcile(application)
    if outcome.action is not Action.NOTHING:
        return outcome
    return Outcome(
        application=application.name,
        operation="supervise",
        action=Action.ADOPT,
        text=f"{owner} supervises it now",
        observation=outcome.observation,
    )


def owns(application: Application, *, owner: str) -> bool:
    """Returns whether ``owner`` still has the job; a task that was declared dead and comes back finds out here."""
    record = application.record
    return record is not None and record.owner == owner
