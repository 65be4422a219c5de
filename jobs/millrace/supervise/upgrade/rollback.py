"""Going back to the last good specification because an operator asks for it."""

from __future__ import annotations

from collections.abc import Callable

from millrace.errors import ConfigurationError, OperationError
from millrace.install.application import Application
from millrace.install.spec import UpgradeMode
from millrace.launch.preflight import preflight
from millrace.operations import perform
from millrace.operations.outcome import Outcome
from millrace.supervise.readiness import last_good, previous_good
from millrace.supervise.upgrade.execute import executed
from millrace.supervise.upgrade.plan import ROLLBACK, Document, UpgradePlan


def rollback(
    application: Application,
    *,
    reason: str = "a rollback was asked for",
    dry_run: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Launch the last good specification again, or the one before where the last good one is what runs.

    What runs is stopped. The state stays as it is where the topology still fits it; else the savepoint is restored that
    was taken before the upgrade, if one was. Supervision leaves the specification in ``config/apps`` alone until it
    changes or is deployed again.

    Args:
        application: which.
        reason: for the record and the journal.
        dry_run: only say what would be done.
        progress: takes lines that say how far it is.

    Returns:
        The action ``rolled_back``, ``failed`` (it is not healthy) or ``stopped`` (it was asked to stop meanwhile).

    Raises:
        OperationError: there is no other good specification, or another operation has not ended.
        PreflightError: a check failed; what runs goes on.
        MillraceError: a step failed; it can be resumed.
    """
    directory = application.directory
    record = application.record
    if record is None:
        raise OperationError(
            f"{application} was never deployed here ({application.home.root}).", remedy="name an application that was"
        )
    launched = application.launched.file
    good = [file for file in (last_good(directory), previous_good(directory)) if file and file.hash != launched.hash]
    if not good:
        raise OperationError(
            f"{application} has never been healthy with another specification than {launched.hash}, so that there is "
            "nothing to go back to.",
            remedy=f"bring an older {application.spec_path} back and deploy it",
        )
    back = good[0]
    restores = record.savepoint if record.savepoint and _is_kept(application, record.savepoint) else ""
    preflight(back.spec, discards_state=bool(restores)).raise_if_failed()
    try:
        rejects = application.desired.file.hash
    except ConfigurationError:
        rejects = launched.hash  # what is not valid is not gone to in any case
    plan = UpgradePlan(
        mode=UpgradeMode.SAVEPOINT if restores else UpgradeMode.LAST_STATE,
        new=Document.of(launched),
        back=Document.of(back),
        restores=restores,
        rejects=rejects,
        ready_timeout_s=back.spec.health.readiness_timeout_s,
    )
    operation = plan.operation(ROLLBACK, application.name, reason)
    return executed(
        application, lambda: perform(application.home, operation, dry_run=dry_run, progress=progress), dry_run=dry_run
    )


def _is_kept(application: Application, savepoint: str) -> bool:
    # Loads topologies, which DAG files, that import this module, must not wait for.
    from millrace.operations.savepoints.location import launched_repository

    return savepoint in launched_repository(application).names()
