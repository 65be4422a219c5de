"""Launchers by their kind."""

from __future__ import annotations

from millrace.errors import ConfigurationError
from millrace.ops.launchers.base import Launcher
from millrace.ops.launchers.local import LocalLauncher
from millrace.ops.launchers.standalone import StandaloneLauncher

_LAUNCHERS: dict[str, Launcher] = {}


def register_launcher(launcher: Launcher) -> None:
    """Make a launcher known under its kind; a later one of the same kind takes its place."""
    _LAUNCHERS[launcher.kind] = launcher


def launcher_of_kind(kind: str) -> Launcher:
    """The launcher ``kind``.

    Raises:
        ConfigurationError: there is none; the message lists those that there are.
    """
    if kind not in _LAUNCHERS:
        raise ConfigurationError(
            f"There is no launcher {kind!r}.", remedy=f"take one of these: {', '.join(sorted(_LAUNCHERS))}"
        )
    return _LAUNCHERS[kind]


register_launcher(LocalLauncher())
register_launcher(StandaloneLauncher())
