"""Taking a job under supervision, and telling whether one still has it."""

from __future__ import annotations

from millrace.install.files import append_journal
from millrace.install.home import Home
from millrace.install.locks import application_lock
from millrace.install.record import DesiredState, StopCause, read_record, write_record
from millrace.ops.deploy import deploy
from millrace.ops.driver import adopt_unrecorded_driver
from millrace.ops.observe import observe
from millrace.ops.outcome import Outcome
from millrace.ops.reconcile import reconcile


def take_over(home: Home, application: str, *, owner: str) -> Outcome:
    """Become the owner of an application's job: adopt the one that runs, or start it.

    A job that a planned stop ended stays stopped. One that was stopped because its supervising task was killed starts
    again, as clearing such a task asks for that.

    Args:
        home: the installation.
        application: its name.
        owner: ``run_id/try_number`` of the supervising task.

    Returns:
        The action ``adopt``, ``stopped``, or that of the deployment or reconcile that it took.

    Raises:
        MillraceError: as :func:`~millrace.ops.deploy.deploy` and :func:`~millrace.ops.reconcile.reconcile`.
    """
    directory = home.application(application)
    record = read_record(directory)
    if record is None:
        return deploy(home, application, owner=owner, reason=f"first start, by {owner}")
    with application_lock(directory):
        record = read_record(directory)
        assert record is not None
        stopped = record.desired is DesiredState.STOPPED
        if stopped and record.stop_cause is not StopCause.TASK_KILLED:
            return Outcome(
                application=application,
                operation="supervise",
                action="stopped",
                text=record.last_reason,
                observation=observe(home, application),
            )
        record = adopt_unrecorded_driver(directory, record, operation="supervise")
        write_record(directory, record.with_changes(owner=owner))
        append_journal(directory, "supervise", "owner", owner=owner, before=record.owner)
    if stopped:
        return deploy(home, application, owner=owner, reason=f"started again by {owner}", skip_rejected=True)
    outcome = reconcile(home, application)
    if outcome.action != "nothing":
        return outcome
    return Outcome(
        application=application,
        operation="supervise",
        action="adopt",
        text=f"{owner} supervises it now",
        observation=outcome.observation,
    )


def owns(home: Home, application: str, *, owner: str) -> bool:
    """Whether ``owner`` still has the job; a task that was declared dead and comes back finds out here."""
    record = read_record(home.application(application))
    return record is not None and record.owner == owner
