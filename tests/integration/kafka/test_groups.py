from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Consumer

from millrace.errors import OperationError, TaskMigratedError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.clients import base_settings
from millrace.kafka.groups import GroupProtocol, fence_transactional_ids, live_members
from millrace.kafka.jars import STREAMS_JARS, class_path, resolve_jars
from millrace.kafka.java import QUICK_TO_START, find_java
from millrace.kafka.offsets import committed_offsets
from tests.waiting import PATIENCE, eventually


@contextmanager
def _member(bootstrap_servers: str, group: str, topic: str, protocol: str) -> Iterator[None]:
    consumer = Consumer({
        **base_settings(bootstrap_servers),
        "group.id": group,
        "client.id": "console",
        "group.protocol": protocol,
    })  # fmt: skip
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + 30 * PATIENCE
        while not consumer.assignment():
            assert time.monotonic() < deadline
            consumer.poll(0.1)
        yield
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_live_member_of_the_group_is_seen_until_it_leaves(
    bootstrap_servers: str, make_topic, unique: str, protocol: str
) -> None:
    topic = make_topic("in")
    admin = KafkaAdmin(bootstrap_servers)
    assert not live_members(admin, unique).is_live
    with _member(bootstrap_servers, unique, topic, protocol):
        membership = live_members(admin, unique)
        assert membership.is_live
        assert membership.protocol is GroupProtocol(protocol)
        assert [member.client_id for member in membership.members] == ["console"]
        assert "console@127.0.0.1" in str(membership)
    assert not live_members(admin, unique).is_live


@pytest.mark.skipif(shutil.which("javac") is None, reason="compiles a Java program: needs a JDK")
@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_a_live_kafka_streams_application_is_seen_whatever_protocol_it_speaks(
    bootstrap_servers: str, make_topic, unique: str, tmp_path: Path, protocol: str
) -> None:
    topic = make_topic("in")
    admin = KafkaAdmin(bootstrap_servers)
    program = Path(__file__).parent / "java" / "StreamsMember.java"
    arguments = [bootstrap_servers, unique, topic, str(tmp_path / "state"), protocol]
    member = subprocess.Popen(
        [
            str(find_java()),
            *QUICK_TO_START,
            "-Xmx128m",
            "-cp",
            class_path(resolve_jars(STREAMS_JARS)),
            str(program),
            *arguments,
        ],
        stdin=subprocess.PIPE,
        stdout=(tmp_path / "log").open("wb"),
        stderr=subprocess.STDOUT,
    )
    try:
        eventually(lambda: live_members(admin, unique).is_live, True, limit_s=60)
        expected = GroupProtocol.CLASSIC if protocol == "classic" else GroupProtocol.OTHER
        # While a group forms for the first time, its protocol is not told yet.
        eventually(lambda: live_members(admin, unique).protocol, expected)
        assert committed_offsets(admin, unique) == {}, "asking commits nothing"
        member.communicate(b"stop", timeout=30)
        eventually(lambda: live_members(admin, unique).is_live, False, limit_s=60)
    finally:
        member.kill()
        member.wait(10)


def test_offsets_of_a_group_with_members_are_refused_without_a_transaction(
    bootstrap_servers: str, make_topic, unique: str, open_producer
) -> None:
    topic = make_topic("in")
    producer = open_producer(None)
    with _member(bootstrap_servers, unique, topic, "classic"):
        producer.begin()
        with pytest.raises(OperationError, match=unique):
            producer.commit({(topic, 0): (1, "")}, unique)


def test_a_group_that_only_has_committed_offsets_has_no_members(
    bootstrap_servers: str, make_topic, unique: str, open_producer
) -> None:
    topic = make_topic("in")
    producer = open_producer(f"{unique}-0_0")
    producer.begin()
    producer.commit({(topic, 0): (1, "")}, unique)
    membership = live_members(KafkaAdmin(bootstrap_servers), unique)
    assert (membership.is_live, membership.members, membership.state) == (False, (), "")


def test_a_group_that_nobody_ever_used_has_no_members(bootstrap_servers: str, unique: str) -> None:
    membership = live_members(KafkaAdmin(bootstrap_servers), unique)
    assert (membership.is_live, membership.protocol) == (False, None)


def test_fenced_ids_lose_their_open_transactions(
    bootstrap_servers: str, make_topic, unique: str, open_producer, read_all
) -> None:
    topic = make_topic("out")
    zombies = [open_producer(f"{unique}-{task}") for task in ("0_0", "1_3")]
    for zombie in zombies:
        zombie.begin()
        zombie.send(topic, [b"k"], [b"zombie"], np.zeros(1, np.int64), partition=0)
        zombie.flush()
    fence_transactional_ids(bootstrap_servers, [f"{unique}-0_0", f"{unique}-1_3", f"{unique}-never-used"])
    assert read_all(topic) == []
    for zombie in zombies:
        with pytest.raises(TaskMigratedError):
            zombie.commit({}, unique)
