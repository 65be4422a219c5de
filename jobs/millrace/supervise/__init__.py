"""Bring an application to what its specification says, and keep it there.

Deployment, the wait until it works, reconcile with the decision that it takes, ownership by a supervising task,
upgrades with their way back, and canaries. What it sees of a driver, and how one is launched, is in
:mod:`millrace.launch`; savepoints, resets and the journal that an upgrade uses are in :mod:`millrace.operations`.
"""

from millrace.supervise.deploy import deploy
from millrace.supervise.readiness import wait_until_ready
from millrace.supervise.reconcile import reconcile, reconcile_all
from millrace.supervise.upgrade.rollback import rollback

__all__ = [
    "deploy",
    "reconcile",
    "reconcile_all",
    "rollback",
    "wait_until_ready",
]
