"""Submitting a driver to a cluster with ``spark-submit``."""

from __future__ import annotations

import os
from pathlib import Path

from millrace.config import ProcessingEngine, is_secret
from millrace.driver.control_file import new_token, read_token
from millrace.errors import ConfigurationError, OperationError
from millrace.files import write_atomically
from millrace.install.home import ApplicationDirectory
from millrace.install.launcher_settings import CONTROL_TOKEN
from millrace.install.launchers.base import Launch, rotate_log
from millrace.install.launchers.instance import DriverInstance
from millrace.install.launchers.tools import Tool, ToolOutput
from millrace.install.spec import ApplicationSpec
from millrace.kafka.jars import spark_home

_SUBMIT_LIMIT_S = 300.0
_OF_THE_SUBMISSION = "spark.kubernetes.authenticate.submission."


def spark_submit() -> str:
    """Returns the program of ``SPARK_HOME``, else the one that pyspark brings."""
    home = os.environ.get("SPARK_HOME")
    return str((spark_home() if home is None else Path(home)) / "bin" / "spark-submit")


def driver_settings(spec: ApplicationSpec) -> dict[str, str]:
    """Returns the settings that Spark needs before the driver's virtual machine is up: ours, then the specification's.

    Spark writes them into the cluster for everybody to read. So secrets are not among them but for those of the
    submission itself, which Spark keeps back; the driver sets the others once it runs.
    """
    # Spark's Python package is loaded here only: DAG files import this module, and must be parsed fast.
    from millrace.spark.session import own_settings

    config = spec.streams_config()
    public = {
        key: value
        for key, value in config.spark_settings.items()
        if not is_secret(key) or key.startswith(_OF_THE_SUBMISSION)
    }
    # The topology, which may have frame functions, is known to the driver only.
    return {**own_settings(config, ProcessingEngine.MICRO_BATCHES), **public}


def control_port(spec: ApplicationSpec) -> int:
    """Returns the port of the control plane, which must be known and reached from here.

    Raises:
        ConfigurationError: the driver would take a free one, or listen on its own host only.
    """
    address = spec.streams_config().application_server
    host, _, port = address.rpartition(":")
    if int(port) == 0 or host.strip("[]") in {"localhost", "127.0.0.1", "::1"}:
        raise ConfigurationError(
            f"The launcher of {spec.name} is {spec.launcher.kind} and its application.server is {address!r}, which "
            "cannot be reached from here.",
            remedy="set application.server to 0.0.0.0 and a port, or leave it away for 0.0.0.0:7070",
        )
    return int(port)


def refuse_command(spec: ApplicationSpec) -> None:
    """Refuses a command of the specification's own, which nothing would run on a cluster.

    Raises:
        ConfigurationError: there is one.
    """
    if spec.launcher.command is not None:
        raise ConfigurationError(
            f"The launcher of {spec.name} is {spec.launcher.kind}, which does not take launcher.command.",
            remedy="remove it",
        )


def control_token(directory: ApplicationDirectory) -> Path:
    """Returns the file with the token of the control plane, made at the first launch: the driver gets a copy of it."""
    path = directory.path / CONTROL_TOKEN
    if not path.exists():
        new_token(path)
    read_token(path)
    return path


def properties_file(directory: ApplicationDirectory) -> Path:
    """Returns where the settings of a submission are: they may be secrets, and must not be in a process list."""
    return directory.path / "submission.properties"


def refuse_second(other: DriverInstance | None, directory: ApplicationDirectory) -> None:
    """Refuses a launch beside a driver that was found.

    Raises:
        OperationError: there is one.
    """
    if other is not None:
        raise OperationError(
            f"A driver of {directory.application} is there already: {other.name}.",
            remedy="stop it with `millrace stop`",
        )


def submit(launch: Launch, directory: ApplicationDirectory) -> ToolOutput:
    """Writes the launch's files and runs ``spark-submit``; what it says goes to the driver's log.

    Raises:
        OperationError: it is missing, failed, or did not end in time.
    """
    program, *arguments = launch.command
    tool = Tool(
        program=program,
        remedy="install pyspark, or set SPARK_HOME to a Spark of the same version",
        environment=launch.environment,
    )
    for path, content in launch.files.items():
        write_atomically(path, content.encode(), mode=0o600)
    rotate_log(launch.log)
    output = tool.run(arguments, timeout_s=_SUBMIT_LIMIT_S)
    launch.log.write_text(output.messages + output.text)
    if output.code != 0:
        raise OperationError(
            f"{directory.application} could not be submitted (exit code {output.code}): {output.problem}.",
            remedy=f"read {launch.log}",
        )
    return output
