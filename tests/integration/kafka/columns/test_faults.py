"""What is not there, not allowed or away is told as it is, and takes nothing of the other topic-partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from millrace.embedded.broker import EmbeddedBroker
from millrace.embedded.cluster import EmbeddedCluster
from millrace.errors import MillraceError, OffsetOutOfRangeError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.producer import TaskProducer
from millrace.kafka.topics import TopicSpec
from tests.integration.kafka.columns.reading import Got, Reading
from tests.records import Record, leader_of, produce
from tests.waiting import eventually

Make = Callable[..., str]
Open = Callable[..., Reading]


def raised(reading: Reading, kind: type[MillraceError]) -> Any:
    """The first error of a kind that polls raise."""
    with pytest.raises(kind) as error:
        reading.until(lambda: False)
    return error.value


@pytest.mark.parametrize("start", [3, 11])
def test_an_offset_that_the_log_does_not_have_is_an_error(
    bootstrap_servers: str, make_topic: Make, open_reading: Open, start: int
) -> None:
    topic = make_topic(partitions=2)
    produce(bootstrap_servers, topic, [Record(b"k", b"v", 1, partition=each) for each in (0, 1) for _ in range(10)])
    KafkaAdmin(bootstrap_servers).delete_records({(topic, 0): 5})
    reading = open_reading({(topic, 0): start})
    error = raised(reading, OffsetOutOfRangeError)
    assert f"Offset {start} of {topic}-0" in error.message
    # The others can be read on, and this one from where it begins.
    reading.reader.assign({(topic, 1): 0, (topic, 0): 5})
    reading.until_ends({(topic, 0): 10, (topic, 1): 10})
    assert reading.got[topic, 0].offsets == [5, 6, 7, 8, 9]


def test_a_partition_that_there_is_not_keeps_no_other_from_being_read(
    bootstrap_servers: str, make_topic: Make, open_reading: Open
) -> None:
    topic = make_topic()
    produce(bootstrap_servers, topic, [Record(b"k", b"v", 1, partition=0)])
    reading = open_reading({(topic, 7): 0, (f"{topic}-none", 0): 0, (topic, 0): 0})
    reading.until_ends({(topic, 0): 1})
    assert set(reading.got) == {(topic, 0)}


def test_a_topic_that_is_deleted_and_created_anew_does_not_have_the_old_offset(
    bootstrap_servers: str, make_topic: Make, open_reading: Open
) -> None:
    topic, other = make_topic("again"), make_topic("stays")
    for each in (topic, other):
        produce(bootstrap_servers, each, [Record(b"k", b"v", 1, partition=0)] * 10)
    reading = open_reading({(topic, 0): 0, (other, 0): 0})
    reading.until_ends({(topic, 0): 10, (other, 0): 10})
    admin = KafkaAdmin(bootstrap_servers)
    admin.delete_topics([topic])
    produce(bootstrap_servers, other, [Record(b"k", b"2", 1, partition=0)])
    reading.until_ends({(other, 0): 11})
    eventually(lambda: topic in admin.describe_topics([topic]), False)
    admin.create_missing([TopicSpec(name=topic, partitions=1)])
    produce(bootstrap_servers, topic, [Record(b"k", b"new", 1, partition=0)])
    assert f"Offset 10 of {topic}-0" in raised(reading, OffsetOutOfRangeError).message
    reading.reader.assign({(topic, 0): 0})
    reading.got.pop((topic, 0))
    reading.until_ends({(topic, 0): 1})
    assert reading.got[topic, 0].values == [b"new"]


def test_an_open_transaction_holds_the_end_back(bootstrap_servers: str, make_topic: Make, open_reading: Open) -> None:
    topic = make_topic()
    with TaskProducer(bootstrap_servers, transactional_id=f"{topic}-in") as producer:
        producer.init()
        producer.begin()
        producer.send(topic, [b"k"], [b"1"], np.zeros(1, np.int64), partition=0)
        producer.flush()
        produce(bootstrap_servers, topic, [Record(b"k", b"2", 1, partition=0)])
        reading = open_reading({(topic, 0): 0})
        reading.until_ends({(topic, 0): 0})
        assert reading.got[topic, 0] == Got(position=0, end=0, log_end=2)
        producer.commit({}, "any")
    reading.until_ends({(topic, 0): 3})
    assert reading.got[topic, 0].values == [b"1", b"2"]
    assert reading.got[topic, 0].log_end == 3


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path) as running:
        yield running


@pytest.mark.kills
def test_a_broker_that_is_gone_is_waited_for(broker: EmbeddedBroker, open_reading: Open) -> None:
    address = broker.bootstrap_servers
    KafkaAdmin(address).create_missing([TopicSpec(name="kept", partitions=1)])
    produce(address, "kept", [Record(b"k", b"1", 1, partition=0)])
    reading = open_reading({("kept", 0): 0}, bootstrap_servers=address)
    reading.until_ends({("kept", 0): 1})
    assert reading.reader.trouble == ""
    broker.kill()
    reading.until(lambda: reading.reader.trouble != "")
    assert "down" in reading.reader.trouble
    broker.start()
    reading.until(lambda: reading.reader.trouble == "")
    produce(address, "kept", [Record(b"k", b"2", 1, partition=0)])
    reading.until_ends({("kept", 0): 2})
    assert reading.got["kept", 0].values == [b"1", b"2"]


@pytest.mark.kills
def test_reading_goes_on_at_the_next_leader(tmp_path: Path, open_reading: Open) -> None:
    cluster = EmbeddedCluster(tmp_path)
    try:
        cluster.start()
        admin = KafkaAdmin(cluster.bootstrap_servers, timeout_s=30)
        admin.create_missing([TopicSpec(name="kept", partitions=1)])
        servers = cluster.bootstrap_servers
        produce(servers, "kept", [Record(b"k", b"%d" % number, 1, partition=0) for number in range(2000)])
        reading = open_reading({("kept", 0): 0}, bootstrap_servers=servers)
        reading.until(lambda: bool(reading.got), max_records=500)
        leader = leader_of(servers, "kept")
        cluster.nodes[leader - 1].kill()
        eventually(lambda: leader_of(servers, "kept") not in {leader, -1}, True, limit_s=90)
        produce(servers, "kept", [Record(b"k", b"%d" % number, 1, partition=0) for number in range(2000, 3000)])
        reading.until_ends({("kept", 0): 3000}, limit_s=120, max_records=500)
        assert reading.got["kept", 0].values == [b"%d" % number for number in range(3000)]
    finally:
        cluster.stop()
