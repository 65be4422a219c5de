"""Multi-step upgrades: what a changed specification does with the state, and the way back to the last good one."""

from millrace.supervise.upgrade.execute import (
    is_being_upgraded_to,
    is_upgrade_to,
    resume_upgrade,
    upgrade,
    wait_for_running_operation,
)
from millrace.supervise.upgrade.plan import UpgradePlan, plan_upgrade
from millrace.supervise.upgrade.rollback import rollback

__all__ = [
    "UpgradePlan",
    "is_being_upgraded_to",
    "is_upgrade_to",
    "plan_upgrade",
    "resume_upgrade",
    "rollback",
    "upgrade",
    "wait_for_running_operation",
]
