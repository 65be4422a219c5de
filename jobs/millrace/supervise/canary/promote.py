"""Promoting a canary: its specification becomes the application's."""

from __future__ import annotations

from collections.abc import Callable

import yaml

from millrace.files import write_atomically
from millrace.install.application import Application
from millrace.install.spec import UpgradeMode
from millrace.operations.action import Action
from millrace.operations.outcome import Outcome
from millrace.supervise.canary.clone import canary_of
from millrace.supervise.deploy import deploy


def promote(
    application: Application,
    *,
    upgrade_mode: UpgradeMode | None = None,
    rollback_on_failure: bool | None = True,
    reason: str = "its canary was promoted",
    dry_run: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Writes the specification of the canary to ``config/apps`` and deploys the application with it.

    The canary goes on until it is dropped. Repeating it after a crash is harmless.

    Args:
        application: the application, not the canary.
        upgrade_mode: see :func:`millrace.supervise.deploy`.
        rollback_on_failure: see :func:`millrace.supervise.deploy`.
        reason: for the record and the journal.
        dry_run: only say what would be done.
        progress: takes lines that say how far it is.

    Raises:
        OperationError: it has no canary.
        MillraceError: as :func:`millrace.supervise.deploy`.
    """
    canary = canary_of(application)
    path = application.spec_path
    if dry_run:
        return Outcome(
            application=application.name,
            operation="canary promote",
            action=Action.PROMOTE,
            text=f"{path} gets the specification of the canary",
            dry_run=True,
            steps=(f"write {path}", f"deploy {application}"),
        )
    write_atomically(path, yaml.safe_dump(canary.candidate, sort_keys=False).encode())
    return deploy(
        application,
        reason=reason,
        upgrade_mode=upgrade_mode,
        rollback_on_failure=rollback_on_failure,
        progress=progress,
    )
