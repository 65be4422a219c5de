from __future__ import annotations

import pytest

from millrace.cli.submitted.pod import command_of
from millrace.errors import ConfigurationError

EXECUTOR = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@orders-svc.streams.svc:7078",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "1024m",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.1.2.3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "orders-exec-1",
    "SPARK_CONF_DIR": "/opt/spark/conf",
    **{f"SPARK_JAVA_OPT_{number}": f"-Dn={number}" for number in range(11)},
}


def test_a_driver_is_submitted_once_more_in_its_pod_with_the_jars_of_the_connector() -> None:
    arguments = ["driver", "--properties-file", "/opt/spark/conf/spark.properties", "local:///driver.py", "run"]
    command = command_of(arguments, {"SPARK_DRIVER_BIND_ADDRESS": "10.1.2.3"})
    assert command[0].endswith("/bin/spark-submit")
    assert "spark.driver.bindAddress=10.1.2.3" in command
    assert "spark-sql-kafka" in command[command.index("--jars") + 1]
    assert command[command.index("--deploy-mode") + 1] == "client"
    assert command[-4:] == arguments[1:]


def test_an_executor_gets_the_options_in_their_order_and_registers_with_the_driver() -> None:
    command = command_of(["executor"], EXECUTOR)
    assert command[1:12] == [f"-Dn={number}" for number in range(11)]
    assert command[command.index("-cp") + 1].startswith("/opt/spark/conf:")
    assert command[command.index("--driver-url") + 1] == EXECUTOR["SPARK_DRIVER_URL"]
    assert command[command.index("--podName") + 1] == "orders-exec-1"


def test_a_pod_of_another_role_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not 'shell'"):
        command_of(["shell"], {})
