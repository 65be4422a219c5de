"""What needs a broker with unusual settings: offsets that expire soon, append time by default, passwords."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from millrace.embedded.broker import HOST, EmbeddedBroker, free_ports
from millrace.kafka.offsets import committed_offsets
from tests.application import Application, wait_until
from tests.broker import BROKER_PROPERTIES
from tests.integration.spark.conftest import World
from tests.records import Record

GROUP_OF_OTHERS = "nobody-commits-again"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker with a second listener, which asks for a password."""
    (secure_port,) = free_ports(1)
    started = EmbeddedBroker(tmp_path_factory.mktemp("broker"), properties=BROKER_PROPERTIES)
    started.properties |= {
        # A slow machine may need the better part of a minute from a stop to the next commit.
        "offsets.retention.minutes": "2",
        "offsets.retention.check.interval.ms": "2000",
        "log.message.timestamp.type": "LogAppendTime",
        "listeners": f"PLAINTEXT://{started.bootstrap_servers},SECURE://{HOST}:{secure_port},"
        f"CONTROLLER://{started.controller}",
        "advertised.listeners": f"PLAINTEXT://{started.bootstrap_servers},SECURE://{HOST}:{secure_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
        'required user_reader="right";',
    }
    with started:
        started.secure_servers = f"{HOST}:{secure_port}"  # type: ignore[attr-defined]
        yield started


@pytest.fixture(scope="module")
def own_world(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(broker.bootstrap_servers, "own", tmp_path_factory.mktemp("applications"))
    world.create("events", "groups", partitions=2, message_timestamp_type="CreateTime")
    yield world
    world.close()


@pytest.fixture(scope="module")
def application(own_world: World) -> Application:
    """An application one of whose input partitions never gets a record."""
    started = own_world.application("rekeyed", config={"commit.interval.ms": 300})
    started.start_and_wait()
    own_world.send(
        "events",
        Record(b"a", b'{"group":"x"}', 1_000, partition=0),
        Record(b"b", b'{"group":"x"}', 2_000, partition=0),
    )
    started.wait_until_caught_up()
    return started


def counts(world: World) -> dict[tuple[bytes, int], int]:
    found = {}
    for record in world.read("groups"):
        key = record.key or b""
        found[key[:-8], struct.unpack(">q", key[-8:])[0]] = struct.unpack(">q", record.value or b"")[0]
    return found


def test_wrong_credentials_are_named(broker: EmbeddedBroker, own_world: World) -> None:
    settings = {
        f"{client}.{key}": value
        for client in ("admin", "consumer", "producer")
        for key, value in {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "reader",
            "sasl.password": "${TEST_PASSWORD}",
        }.items()
    }
    secure = broker.secure_servers  # type: ignore[attr-defined]
    refused = own_world.application(
        "copying", "refused", bootstrap_servers=secure, config=settings, environment={"TEST_PASSWORD": "wrong"}
    )

    assert refused.start().wait_for_exit(60) == 1
    assert "uthentication" in refused.errors()
    assert "remedy" in refused.errors().lower()
    assert "wrong" not in refused.errors().replace("wrong password", "")


def test_offsets_of_idle_partitions_outlive_their_retention(own_world: World, application: Application) -> None:
    """Case S20. Another group's offset, committed at the same moment, is gone after two minutes."""
    events = own_world.name("events")
    client = AdminClient({"bootstrap.servers": own_world.bootstrap_servers})
    request = ConsumerGroupTopicPartitions(GROUP_OF_OTHERS, [TopicPartition(events, 1, 0)])
    client.alter_consumer_group_offsets([request])[GROUP_OF_OTHERS].result(20)
    before = application.committed()
    assert {(events, 0), (events, 1)} <= before.keys()
    wait_until(
        lambda: not committed_offsets(own_world.admin, GROUP_OF_OTHERS), timeout_s=180, what="the other offset expired"
    )
    # Ours were committed before the other's, so without a new commit they would be gone as well.
    assert application.committed() == before
    assert application.is_alive()


def test_append_time_as_the_broker_s_default_does_not_move_windows(own_world: World, application: Application) -> None:
    """Case P06: before and after the stores are restored from their changelogs."""
    assert counts(own_world) == {(b"x", 0): 2}
    for topic in ("by-group-repartition", "groups-changelog"):
        settings = own_world.admin.topic_settings(f"{application.application_id}-{topic}")
        assert settings["message.timestamp.type"] == "CreateTime"
    assert application.stop() == 0
    shutil.rmtree(application.state_directory)
    application.start_and_wait()
    own_world.send("events", Record(b"c", b'{"group":"x"}', 3_000, partition=0))
    application.wait_until_caught_up()
    assert counts(own_world) == {(b"x", 0): 3}


def test_a_topic_that_is_deleted_and_made_again_ends_it(own_world: World, application: Application) -> None:
    """While it runs, and at the next start; nothing of the new topic is counted."""
    events = own_world.name("events")
    before = counts(own_world)
    own_world.admin.delete_topics([events])
    wait_until(lambda: not own_world.admin.describe_topics([events]), timeout_s=20, what="topic deleted")
    own_world.create("events", partitions=2, message_timestamp_type="CreateTime")
    own_world.send("events", *(Record(b"z", b'{"group":"x"}', 4_000, partition=0) for _ in range(10)))

    assert application.wait_for_exit(60) == 1
    status = application.published_status()
    assert status is not None
    assert status.state == "ERROR"
    assert events in status.reason
    assert application.start().wait_for_exit(60) == 1
    status = application.published_status()
    assert status is not None
    assert events in status.reason
    assert "created again" in status.reason
    assert "reset the application" in status.remedy
    assert counts(own_world) == before
