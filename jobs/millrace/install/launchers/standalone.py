"""The driver as a detached process on this host, its executors on a Spark standalone cluster.

Spark has no cluster mode for Python on standalone clusters, so the driver is always in client mode.
"""

from __future__ import annotations

from millrace.errors import ConfigurationError
from millrace.install.home import ApplicationDirectory
from millrace.install.launchers.base import HostLauncher, Launch, driver_command, driver_environment
from millrace.install.spec import ApplicationSpec


class StandaloneLauncher(HostLauncher):
    """Runs the driver here and asks the Spark master for executors."""

    kind = "standalone"

    def plan(self, spec: ApplicationSpec, directory: ApplicationDirectory) -> Launch:
        """Returns the driver's command, variables and log.

        Raises:
            ConfigurationError: no master URL is given, or one that is not of a standalone cluster.
        """
        master = spec.launcher.master or ""
        if not master.startswith("spark://"):
            raise ConfigurationError(
                f"The launcher of {spec.name} is standalone and its master is {master!r}.",
                remedy="set launcher.master to the master's URL, spark://host:7077",
            )
        return Launch(
            command=driver_command(spec, directory),
            environment=driver_environment(spec, directory),
            log=directory.log,
        )
