"""Submits an application to YARN, and finds what it submitted."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from millrace.errors import ConfigurationError, OperationError
from millrace.install.home import ApplicationDirectory
from millrace.install.launchers.base import Launch
from millrace.install.launchers.instance import DriverInstance
from millrace.install.launchers.submission import (
    control_port,
    control_token,
    driver_settings,
    properties_file,
    refuse_command,
    refuse_second,
    spark_submit,
    submit,
)
from millrace.install.launchers.yarn.application import YarnApplication, run_yarn
from millrace.install.spec import ApplicationSpec, load_spec
from millrace.kafka.java_clients import properties_text

_SUBMITTED = re.compile(r"Submitted application (application_\d+_\d+)")
_ID = re.compile(r"^\s*(application_\d+_\d+)\s", re.MULTILINE)
_CONFIGURATION = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_DRIVER = Path(__file__).resolve().parents[3] / "cli" / "submitted" / "driver.py"
_ALIVE = "SUBMITTED,ACCEPTED,RUNNING"


class YarnLauncher:
    """Runs the driver in an application master, which asks for the executors' containers."""

    kind = "yarn"

    def state_elsewhere(self, spec: ApplicationSpec) -> str:
        """Returns the place of stores: ``state.dir`` of the nodes on which the executors run."""
        return f"in {spec.streams_config().state_dir} on the nodes of its executors"

    def plan(self, spec: ApplicationSpec, directory: ApplicationDirectory) -> Launch:
        """Returns the command of spark-submit.

        Raises:
            ConfigurationError: Hadoop's configuration is not named, ``state.dir`` is no path of the nodes, or the
                control plane could not be reached.
        """
        if not any(name in os.environ or name in spec.launcher.environment for name in _CONFIGURATION):
            raise ConfigurationError(
                f"The launcher of {spec.name} is yarn, and nothing says where its cluster is.",
                remedy=f"set {' or '.join(_CONFIGURATION)}, in the environment or in launcher.environment",
            )
        state_dir = spec.streams_config().state_dir
        if "state.dir" not in spec.config or not Path(state_dir).is_absolute():
            raise ConfigurationError(
                f"state.dir of {spec.name} is {state_dir!r}, which is no directory of every node.",
                remedy="set state.dir to an absolute path that the executors may write on their nodes",
            )
        refuse_command(spec)
        control_port(spec)
        return Launch(
            command=(
                spark_submit(), "--master", "yarn", "--deploy-mode", "cluster", "--name", spec.name,
                "--properties-file", str(properties_file(directory)),
                str(_DRIVER), "run", directory.spec.name, "--run-directory", "run",
            ),
            environment=spec.launcher.environment,
            log=directory.log,
            files={properties_file(directory): properties_text({**driver_settings(spec), **_yarn(spec, directory)})},
        )  # fmt: skip

    def start(self, launch: Launch, directory: ApplicationDirectory) -> DriverInstance:
        """Submits the driver, and reads the application's id from the output of spark-submit.

        Raises:
            OperationError: spark-submit failed or named no application, there is a driver already, or the resource
                manager does not answer.
        """
        refuse_second(self.find(directory), directory)
        control_token(directory)
        output = submit(launch, directory)
        found = application_id(output.messages + output.text)
        if found is None:
            raise OperationError(
                "spark-submit ended well, and named no application.",
                remedy=f"read {launch.log}, and see `yarn application -list`",
            )
        return YarnApplication(id=found, port=control_port(load_spec(directory.spec)))

    def find(self, directory: ApplicationDirectory) -> DriverInstance | None:
        """Returns the living application that carries this one's tag.

        Raises:
            OperationError: the resource manager does not answer.
        """
        output = run_yarn(["-list", "-appTags", _tag(directory.application), "-appStates", _ALIVE])
        if output.code != 0:
            raise OperationError(
                f"yarn could not list applications: {output.problem}.",
                remedy="see whether the resource manager answers",
            )
        found = _ID.search(output.text)
        port = control_port(load_spec(directory.spec))
        return None if found is None else YarnApplication(id=found.group(1), port=port)

    def instance_of(self, values: Mapping[str, Any]) -> DriverInstance | None:
        """Returns the application in a record."""
        return YarnApplication.from_mapping(values) if "yarn_application" in values else None


def application_id(text: str) -> str | None:
    """Returns the id of the application that spark-submit says it submitted."""
    found = _SUBMITTED.search(text)
    return None if found is None else found.group(1)


def _tag(application: str) -> str:
    # YARN compares tags in lower case.
    return f"millrace-{application}".lower()


def _yarn(spec: ApplicationSpec, directory: ApplicationDirectory) -> dict[str, str]:
    from millrace.kafka.jars import SPARK_KAFKA_JARS, resolve_jars

    settings = spec.launcher.yarn
    found = {
        "spark.yarn.queue": settings.queue,
        "spark.yarn.tags": _tag(spec.name),
        "spark.yarn.submit.waitAppCompletion": "false",
        # Our own supervision decides whether and when it is started again.
        "spark.yarn.maxAppAttempts": "1",
        "spark.yarn.appMasterEnv.PYSPARK_PYTHON": settings.python,
        "spark.executorEnv.PYSPARK_PYTHON": settings.python,
        "spark.yarn.dist.files": ",".join(str(path) for path in (directory.spec, control_token(directory))),
        "spark.jars": ",".join(str(path) for path in resolve_jars(SPARK_KAFKA_JARS)),
    }
    if settings.archive is not None:
        found["spark.yarn.dist.archives"] = f"{settings.archive}#environment"
    for name, value in spec.launcher.environment.items():
        if name not in _CONFIGURATION:
            found |= {f"spark.yarn.appMasterEnv.{name}": value, f"spark.executorEnv.{name}": value}
    return found
