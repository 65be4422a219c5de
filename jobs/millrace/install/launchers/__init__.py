"""The launchers of drivers: one for each kind of cluster."""

from millrace.install.launchers.base import Launch, Launcher
from millrace.install.launchers.registry import launcher_of_kind, refuse_state_elsewhere, register_launcher

__all__ = [
    "Launch",
    "Launcher",
    "launcher_of_kind",
    "refuse_state_elsewhere",
    "register_launcher",
]
