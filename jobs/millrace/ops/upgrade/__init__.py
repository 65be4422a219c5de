"""Upgrades in steps: what a changed specification does with the state, and the way back to the last good one."""

from millrace.ops.upgrade.execute import carry_on_upgrade, is_upgrade_to, upgrade
from millrace.ops.upgrade.plan import UpgradePlan, plan_upgrade
from millrace.ops.upgrade.rollback import rollback

__all__ = ["UpgradePlan", "carry_on_upgrade", "is_upgrade_to", "plan_upgrade", "rollback", "upgrade"]
