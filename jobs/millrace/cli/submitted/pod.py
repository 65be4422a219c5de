"""The command of a pod: Spark's first argument to a container says whether it is a driver or an executor.

Spark's own images have a shell script for this; here Spark is where the Python package is, and the driver's jars are
those that :mod:`millrace.kafka.jars` resolves.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from millrace.errors import ConfigurationError
from millrace.install.launchers.submission import spark_submit
from millrace.kafka.jars import SPARK_KAFKA_JARS, resolve_jars
from millrace.kafka.java import find_java

_BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_OPTION = "SPARK_JAVA_OPT_"


def main() -> None:
    """Becomes the driver or the executor."""
    command = command_of(sys.argv[1:], os.environ)
    os.execvp(command[0], command)


def command_of(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Returns the command of a driver or an executor.

    Args:
        arguments: what Spark gives the container: ``driver`` and arguments of spark-submit, or ``executor``.
        environment: what Spark sets in the container.

    Raises:
        ConfigurationError: it is neither.
    """
    role = arguments[0] if arguments else ""
    if role == "driver":
        jars = ",".join(str(jar) for jar in resolve_jars(SPARK_KAFKA_JARS))
        address = environment["SPARK_DRIVER_BIND_ADDRESS"]
        return [
            spark_submit(), "--conf", f"spark.driver.bindAddress={address}", "--jars", jars,
            "--deploy-mode", "client", *arguments[1:],
        ]  # fmt: skip
    if role != "executor":
        raise ConfigurationError(
            f"A pod of Spark is a driver or an executor, not {role!r}.", remedy="let spark-submit start it"
        )
    options = {int(key.removeprefix(_OPTION)): value for key, value in environment.items() if key.startswith(_OPTION)}
    memory = environment["SPARK_EXECUTOR_MEMORY"]
    classes = [str(Path(spark_submit()).parents[1] / "jars" / "*"), environment.get("SPARK_CLASSPATH", "")]
    if configuration := environment.get("SPARK_CONF_DIR"):
        classes.insert(0, configuration)
    return [
        str(find_java()), *(options[number] for number in sorted(options)), f"-Xms{memory}", f"-Xmx{memory}",
        "-cp", ":".join(filter(None, classes)), _BACKEND,
        "--driver-url", environment["SPARK_DRIVER_URL"],
        "--executor-id", environment["SPARK_EXECUTOR_ID"],
        "--cores", environment["SPARK_EXECUTOR_CORES"],
        "--app-id", environment["SPARK_APPLICATION_ID"],
        "--hostname", environment["SPARK_EXECUTOR_POD_IP"],
        "--resourceProfileId", environment["SPARK_RESOURCE_PROFILE_ID"],
        "--podName", environment["SPARK_EXECUTOR_POD_NAME"],
    ]  # fmt: skip


if __name__ == "__main__":
    main()
