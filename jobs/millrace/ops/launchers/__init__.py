"""Where drivers run: one launcher per kind of place."""

from millrace.ops.launchers.base import Launch, Launcher
from millrace.ops.launchers.driver_states import DriverVerdict, SparkDriverState, verdict
from millrace.ops.launchers.registry import launcher_of_kind, refuse_state_elsewhere, register_launcher

__all__ = [
    "DriverVerdict",
    "Launch",
    "Launcher",
    "SparkDriverState",
    "launcher_of_kind",
    "refuse_state_elsewhere",
    "register_launcher",
    "verdict",
]
