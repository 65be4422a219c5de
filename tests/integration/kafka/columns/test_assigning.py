"""Topic-partitions come, go, pause and resume while others are read, and fill no more memory than agreed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer

from millrace.kafka.columns import PartitionReader
from tests.integration.kafka.columns.reading import LIMIT_S, Reading
from tests.records import Record, produce
from tests.waiting import PATIENCE

Make = Callable[..., str]
Open = Callable[..., Reading]


def numbered(count: int, partitions: range, start: int = 0) -> list[Record]:
    return [
        Record(b"k", b"%d" % number, number + 1, partition=partition)
        for number in range(start, start + count)
        for partition in partitions
    ]


def test_a_partition_that_comes_later_starts_at_its_own_offset(
    bootstrap_servers: str, make_topic: Make, open_reading: Open
) -> None:
    topic = make_topic(partitions=2)
    produce(bootstrap_servers, topic, numbered(1000, range(2)))
    reading = open_reading({(topic, 0): 0})
    reading.until(lambda: bool(reading.got), max_records=10)
    assert set(reading.got) == {(topic, 0)}
    reading.reader.assign({(topic, 1): 990})
    reading.until_ends({(topic, 0): 1000, (topic, 1): 1000})
    assert reading.got[topic, 0].offsets == list(range(1000))
    assert reading.got[topic, 1].offsets == list(range(990, 1000))


def test_nothing_comes_of_a_partition_that_was_taken_away(
    bootstrap_servers: str, make_topic: Make, open_reading: Open
) -> None:
    topic = make_topic(partitions=2)
    produce(bootstrap_servers, topic, numbered(5000, range(2)))
    reading = open_reading({(topic, 0): 0, (topic, 1): 0})
    reading.until(lambda: len(reading.got) == 2, max_records=3000)
    seen = reading.got[topic, 1].position
    assert seen < 5000
    reading.reader.unassign([(topic, 1), (topic, 0)])
    reading.reader.unassign([(topic, 1)])
    reading.reader.assign({(topic, 0): 0})
    reading.got.pop((topic, 0))
    reading.until_ends({(topic, 0): 5000})
    assert reading.got[topic, 1].position == seen


def test_a_partition_that_is_given_back_is_read_from_where_it_is_wanted(
    bootstrap_servers: str, make_topic: Make, open_reading: Open
) -> None:
    """What the client had fetched for the first time leaves no hole."""
    topic = make_topic()
    produce(bootstrap_servers, topic, numbered(20_000, range(1)))
    reading = open_reading({(topic, 0): 0})
    for start in (100, 0, 5_000, 3):
        reading.until(lambda: bool(reading.got), max_records=700)
        reading.got.clear()
        reading.reader.assign({(topic, 0): start})
    reading.until_ends({(topic, 0): 20_000}, max_records=999)
    assert reading.got[topic, 0].offsets == list(range(3, 20_000))


def test_a_paused_partition_is_silent_and_then_goes_on_where_it_was(
    bootstrap_servers: str, make_topic: Make, open_reading: Open
) -> None:
    topic = make_topic(partitions=2)
    produce(bootstrap_servers, topic, numbered(5000, range(2)))
    reading = open_reading({(topic, 0): 0, (topic, 1): 0})
    reading.until(lambda: len(reading.got) == 2, max_records=3000)
    seen = reading.got[topic, 1].position
    reading.reader.pause([(topic, 1)])
    reading.until_ends({(topic, 0): 5000})
    produce(bootstrap_servers, topic, numbered(1, range(2), start=5000))
    reading.until_ends({(topic, 0): 5001})
    assert reading.got[topic, 1].position == seen
    reading.reader.resume([(topic, 1)])
    reading.until_ends({(topic, 1): 5001})
    assert reading.got[topic, 1].offsets == list(range(5001))


def test_what_is_buffered_ahead_is_bounded(bootstrap_servers: str, make_topic: Make, open_reading: Open) -> None:
    topic = make_topic()
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 50})
    value = bytes(10_000)
    for _ in range(6_000):
        producer.produce(topic, value, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0
    limits: dict[str, Any] = {
        "queued_kbytes": 1024,
        "settings": {"fetch.message.max.bytes": "100000", "queued.min.messages": "1000000"},
    }
    reading = open_reading({(topic, 0): 0}, **limits)
    reading.poll(timeout_s=LIMIT_S, max_records=1)
    filled = buffered_bytes(reading)
    # What is queued, and the last answer, which may exceed it.
    assert filled[0] >= 1024 * 1024 / 2
    assert max(filled) <= 2 * (1024 * 1024 + 1_000_000), filled


def buffered_bytes(reading: Reading) -> list[int]:
    """Bytes of the values of each poll, after the client had time to fetch everything if it wanted to."""
    sizes = []
    for _ in range(3):
        wait_until_idle(reading.reader)
        sizes.append(sum(each.values.nbytes for each in reading.poll(timeout_s=LIMIT_S)))
    return sizes


def wait_until_idle(reader: PartitionReader) -> None:
    """Waits until the process takes no processor time, so that the client has fetched what it wants."""
    deadline = time.monotonic() + LIMIT_S * PATIENCE
    before = time.process_time()
    while True:
        assert time.monotonic() < deadline
        time.sleep(0.3)
        now = time.process_time()
        if now - before < 0.02:
            return
        before = now
