"""Upgrades in steps: what a changed specification does with the state, and the way back to the last good one."""

from millrace.ops.upgrade.execute import (
    carry_on_upgrade,
    is_carried_out,
    is_upgrade_to,
    upgrade,
    wait_for_whoever_carries_out,
)
from millrace.ops.upgrade.plan import UpgradePlan, plan_upgrade
from millrace.ops.upgrade.rollback import rollback

__all__ = [
    "UpgradePlan",
    "carry_on_upgrade",
    "is_carried_out",
    "is_upgrade_to",
    "plan_upgrade",
    "rollback",
    "upgrade",
    "wait_for_whoever_carries_out",
]
