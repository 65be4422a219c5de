"""Starts that are refused: what is wrong and what to do is said, the exit code is not 0, and nothing is lost."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
from collections.abc import Iterator

import pytest

from millrace.driver.ending import Ending
from millrace.embedded.broker import free_ports
from millrace.install.files import read_json
from millrace.install.home import ApplicationDirectory
from millrace.kafka.broker_java import broker_java
from millrace.kafka.groups import live_members
from millrace.kafka.jars import BROKER_JARS, resolve_jars
from tests.application import Application, wait_until
from tests.integration.spark.conftest import World
from tests.records import Record


@pytest.fixture(scope="module")
def stopped(world: World) -> dict[str, Application]:
    """Two applications that counted three records of one key, one with names and one without, and were stopped."""
    world.create("named", "named-out", "unnamed", "unnamed-out")
    applications = {
        "named": world.application("explicit_names", "named"),
        "unnamed": world.application("generated_names", "unnamed"),
    }
    for name, application in applications.items():
        world.send(name, *(Record(b"k", b"v", 5) for _ in range(3)))
        application.start()
    for application in applications.values():
        application.wait_until_running()
    for application in applications.values():
        application.wait_until_caught_up()
        assert application.stop() == 0
    return applications


def last_count(world: World, topic: str) -> int:
    count: int = struct.unpack(">q", world.read(topic)[-1].value or b"")[0]
    return count


def use(application: Application, function: str) -> None:
    application.module = f"tests.integration.spark.topologies:{function}"


def refusal(application: Application) -> tuple[str, str]:
    """Reason and remedy of a start that is refused, from the status topic."""
    assert application.start().wait_for_exit(90) == 1
    status = application.published_status()
    assert status is not None
    assert status.state == "ERROR"
    assert status.remedy
    assert status.reason in application.log
    # What `millrace deploy` and `millrace status` say of a driver that is gone.
    ending = Ending.read(ApplicationDirectory(application.run_directory).ended)
    assert ending is not None
    assert (ending.reason, ending.remedy) == (status.reason, status.remedy)
    return status.reason, status.remedy


def error_line(application: Application) -> str:
    """The one line that a start leaves which found no broker to tell of its error."""
    assert application.start().wait_for_exit(90) == 1
    return " ".join(application.errors().split())


def test_without_a_broker_the_address_is_named(world: World) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    line = error_line(world.application("copying", "no-broker", bootstrap_servers=address))
    assert address in line
    assert "remedy" in line.lower()


def test_a_module_without_the_topology_is_named(world: World) -> None:
    application = world.application("there_is_none", "no-topology")
    line = error_line(application)
    assert "tests.integration.spark.topologies" in line
    assert "there_is_none" in line
    ending = Ending.read(ApplicationDirectory(application.run_directory).ended)
    assert ending is not None
    assert "there_is_none" in ending.reason
    assert "Remedy" in line


def test_missing_topics_are_named(world: World) -> None:
    world.create("in")
    application = world.application("copying", "no-topic")
    reason, remedy = refusal(application)
    assert world.name("out") in reason
    assert world.name("in") not in reason.replace(world.name("in-"), "")
    assert "millrace topics create" in remedy


def test_a_filter_before_named_operators_keeps_the_state(world: World, stopped: dict[str, Application]) -> None:
    """Case S13, with names; and case E12: the number of shuffle partitions changes nothing."""
    application = stopped["named"]
    use(application, "explicit_names_filtered")
    application.config["spark.sql.shuffle.partitions"] = 8
    world.send("named", Record(b"k", b"v", 6))
    application.start_and_wait()
    application.wait_until_caught_up()
    marks = read_json(ApplicationDirectory(application.run_directory).nodes)
    assert marks is not None
    assert any(name.startswith("node ") for name in marks), "deployments compare their nodes with these"
    assert last_count(world, "named-out") == 4
    assert application.stop() == 0


def test_moved_generated_names_are_refused_with_the_list(world: World, stopped: dict[str, Application]) -> None:
    """Case S13, without names."""
    application = stopped["unnamed"]
    use(application, "generated_names_moved")
    world.send("unnamed", Record(b"k", b"v", 6))
    reason, remedy = refusal(application)
    for number in (3, 4):
        assert f"KSTREAM-AGGREGATE-STATE-STORE-000000000{number - 1}" in reason or f"000000000{number}" in reason
    assert "would not be used any more" in reason
    assert "Materialized" in remedy
    assert last_count(world, "unnamed-out") == 3
    use(application, "generated_names")


def test_another_kind_of_store_under_the_same_name_is_refused(world: World, stopped: dict[str, Application]) -> None:
    """Case E12."""
    application = stopped["named"]
    outputs = len(world.read("named-out"))
    use(application, "windowed_in_place_of_plain")
    reason, _ = refusal(application)
    assert "named-counts" in reason
    assert "would be read as something else" in reason
    assert len(world.read("named-out")) == outputs
    use(application, "explicit_names_filtered")


@pytest.fixture
def console_consumer(world: World, stopped: dict[str, Application]) -> Iterator[Application]:
    """The console consumer of Kafka, a member of the stopped application's group."""
    application = stopped["named"]
    command = [
        *broker_java(resolve_jars(BROKER_JARS)),
        "-Xmx128m",
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", world.bootstrap_servers, "--topic", world.name("named")),
        *("--group", application.application_id, "--command-property", "enable.auto.commit=false"),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    ) as consumer:
        try:
            wait_until(
                lambda: consumer.poll() is not None or live_members(world.admin, application.application_id).is_live,
                timeout_s=40,
                what="the console consumer joins",
            )
            assert consumer.poll() is None, consumer.stderr.read() if consumer.stderr else ""
            yield application
        finally:
            # It leaves the group when it is asked to end; killed, it would stay a member until its session times out.
            os.killpg(consumer.pid, signal.SIGTERM)
            wait_until(
                lambda: not live_members(world.admin, application.application_id).is_live,
                timeout_s=90,
                what="the console consumer leaves",
            )
            os.killpg(consumer.pid, signal.SIGKILL)


def test_a_console_consumer_in_the_group_is_refused(console_consumer: Application) -> None:
    reason, remedy = refusal(console_consumer)
    assert console_consumer.application_id in reason
    assert "console-consumer" in reason
    assert "stop them" in remedy


def test_an_offset_that_is_gone_from_the_log_is_named_with_the_log_s_start(
    world: World, stopped: dict[str, Application]
) -> None:
    """Case S08: nothing is skipped in silence."""
    application = stopped["unnamed"]
    topic = world.name("unnamed")
    committed = application.committed()[topic, 0]
    world.send("unnamed", *(Record(b"k", b"v", 7) for _ in range(5)))
    world.admin.delete_records({(topic, 0): committed + 4})
    reason, remedy = refusal(application)
    assert f"{topic}-0: committed {committed}, the log starts at {committed + 4}" in reason
    assert "reset" in remedy
    assert application.committed()[topic, 0] == committed


def test_more_partitions_than_the_internal_topics_have_are_refused(
    world: World, stopped: dict[str, Application]
) -> None:
    """Case S14."""
    application = stopped["named"]
    world.admin.add_partitions(world.name("named"), 3)
    reason, remedy = refusal(application)
    assert f"{application.application_id}-named-repartition has 1 partitions, and 3 are needed" in reason
    assert "reset the application" in remedy


def test_a_join_of_topics_with_different_numbers_of_partitions_is_refused(world: World) -> None:
    """Case S14, its second half."""
    world.create("stream", "joined", partitions=3)
    world.create("table", partitions=4)
    reason, remedy = refusal(world.application("join", "unequal"))
    assert f"{world.name('stream')} has 3" in reason
    assert f"{world.name('table')} has 4" in reason
    assert "repartition" in remedy
