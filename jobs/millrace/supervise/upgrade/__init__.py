"""Multi-step upgrades: what a changed specification does with the state, and the way back to the last good one."""

from millrace.supervise.upgrade.execute import (
    is_upgrade_to,
    resume_upgrade,
    running_operation,
    upgrade,
    wait_for_running_operation,
)
from millrace.supervise.upgrade.plan import UpgradePlan, plan_upgrade
from millrace.supervise.upgrade.rollback import rollback

__all__ = [
    "UpgradePlan",
    "is_upgrade_to",
    "plan_upgrade",
    "resume_upgrade",
    "rollback",
    "running_operation",
    "upgrade",
    "wait_for_running_operation",
]
