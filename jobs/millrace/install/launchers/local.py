"""A detached process on this host, with Spark inside it (``local[N,4]``)."""

from __future__ import annotations

from millrace.install.home import ApplicationDirectory
from millrace.install.launchers.base import HostLauncher, Launch, driver_command, driver_environment
from millrace.install.spec import ApplicationSpec


class LocalLauncher(HostLauncher):
    """Runs the driver as a process of its own session that survives the one that started it."""

    kind = "local"

    def plan(self, spec: ApplicationSpec, directory: ApplicationDirectory) -> Launch:
        """Returns the driver's command, variables and log."""
        return Launch(
            command=driver_command(spec, directory),
            environment=driver_environment(spec, directory),
            log=directory.log,
        )
