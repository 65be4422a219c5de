"""Launchers by their kind."""

from __future__ import annotations

from millrace.errors import ConfigurationError, OperationError
from millrace.install.launchers.base import Launcher
from millrace.install.launchers.kubernetes import KubernetesLauncher
from millrace.install.launchers.local import LocalLauncher
from millrace.install.launchers.standalone import StandaloneLauncher
from millrace.install.launchers.yarn import YarnLauncher
from millrace.install.spec import ApplicationSpec

_LAUNCHERS: dict[str, Launcher] = {}


def register_launcher(launcher: Launcher) -> None:
    """Registers a launcher under its kind; a later one of the same kind replaces it."""
    _LAUNCHERS[launcher.kind] = launcher


def launcher_of_kind(kind: str) -> Launcher:
    """Returns the launcher ``kind``.

    Raises:
        ConfigurationError: there is none; the message lists those that there are.
    """
    if kind not in _LAUNCHERS:
        raise ConfigurationError(
            f"There is no launcher {kind!r}.", remedy=f"take one of these: {', '.join(sorted(_LAUNCHERS))}"
        )
    return _LAUNCHERS[kind]


def refuse_state_elsewhere(spec: ApplicationSpec, *, what: str) -> None:
    """Refuses what reads or writes the stores of an application that does not keep them on this host.

    Args:
        spec: the application's specification.
        what: what is refused, as a verb.

    Raises:
        OperationError: the stores are elsewhere.
    """
    if where := launcher_of_kind(spec.launcher.kind).state_elsewhere(spec):
        raise OperationError(
            f"Cannot {what} {spec.name}: its stores are {where}, and this needs them on this host.",
            remedy="its changelogs are the copy to restore from; for such operations run it with the launcher local, "
            "or standalone on hosts that share state.dir",
        )


register_launcher(LocalLauncher())
register_launcher(StandaloneLauncher())
register_launcher(KubernetesLauncher())
register_launcher(YarnLauncher())
