"""The estimated overhead of transactions and the estimated size of logs, against the broker's own files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median

import numpy as np
import pytest

from millrace.kafka.producer import TaskProducer
from millrace.sizing import calculate_eos_overhead, log_record_bytes
from millrace.sizing.eos import MARKER_BYTES, TRANSACTION_S
from tests.integration.sizing.measuring import log_bytes, random_bytes
from tests.waiting import eventually

MakeTopic = Callable[..., str]
OpenProducer = Callable[[str | None], TaskProducer]
RECORDS = 500
KEY_BYTES = 16
VALUE_BYTES = 100


@pytest.fixture
def open_producer(bootstrap_servers: str) -> Iterator[OpenProducer]:
    opened: list[TaskProducer] = []

    def open_one(transactional_id: str | None) -> TaskProducer:
        producer = TaskProducer(bootstrap_servers, transactional_id=transactional_id)
        opened.append(producer)
        producer.init()
        return producer

    yield open_one
    for producer in opened:
        producer.close()


def batches(producer: TaskProducer, topic: str, group: str, count: int, *, partitions: int) -> list[float]:
    """Seconds that each of ``count`` batches took, over all partitions of the topic, with the input's offset."""
    keys, values = random_bytes(RECORDS, KEY_BYTES), random_bytes(RECORDS, VALUE_BYTES)
    targets = np.arange(RECORDS, dtype=np.int32) % partitions
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        producer.begin()
        producer.send(topic, keys, values, np.full(RECORDS, 1_000), partitions=targets)
        producer.commit({(topic, 0): (1, "")}, group)
        taken.append(time.perf_counter() - began)
    return taken


@pytest.mark.parametrize("partitions", [1, 4])
def test_a_transaction_leaves_as_many_markers_and_bytes_as_calculated(
    make_topic: MakeTopic, open_producer: OpenProducer, unique: str, partitions: int
) -> None:
    plain, transactional = (make_topic(name, partitions=partitions) for name in ("plain", "transactional"))
    count = 10
    batches(open_producer(None), plain, unique, count, partitions=partitions)
    batches(open_producer(f"{unique}-0_0"), transactional, unique, count, partitions=partitions)
    written = log_bytes(plain)
    overhead = calculate_eos_overhead(
        tasks=1, partitions_per_transaction=partitions, commit_interval_s=1, bytes_per_second=written / count
    )
    # The calculation counts the marker in the partition of the group's offsets too, which is not in this topic.
    expected = (overhead.marker_bytes_per_second - MARKER_BYTES) * count
    assert expected == count * partitions * 78
    # A commit is acknowledged before its markers are written.
    eventually(lambda: log_bytes(transactional) - written >= expected - count * partitions * 39, True, limit_s=20)
    # Batches are cut where the producer's clock says, so their headers differ by some.
    assert log_bytes(transactional) - written == pytest.approx(expected, abs=count * partitions * 61)


@pytest.mark.alone
def test_the_time_of_transactions_is_predicted_from_every_other_one(
    make_topic: MakeTopic, open_producer: OpenProducer, unique: str
) -> None:
    topic = make_topic("out")
    producers = [open_producer(f"{unique}-0_0"), open_producer(None)]
    for producer in producers:
        batches(producer, topic, unique, 3, partitions=1)
    # Turn by turn, and the fastest: what else the machine does only adds to it, and meets all of them.
    pairs = [[batches(each, topic, unique, 1, partitions=1)[0] for each in producers] for _ in range(40)]
    (seen_with, seen_without), (with_, without) = (
        [min(times) for times in zip(*half, strict=True)] for half in (pairs[::2], pairs[1::2])
    )
    usual_s = median(first for first, _ in pairs) - median(second for _, second in pairs)
    assert TRANSACTION_S / 10 < usual_s < TRANSACTION_S * 10, "the assumed time"
    transaction_s = seen_with - seen_without
    overhead = calculate_eos_overhead(
        tasks=1,
        partitions_per_transaction=1,
        commit_interval_s=with_,
        bytes_per_second=1,
        transaction_s=transaction_s,
    )
    assert overhead.time_share == pytest.approx((with_ - without) / with_, rel=0.6)


@pytest.mark.parametrize("value_bytes", [10, 100, 1_000])
def test_the_size_of_records_in_a_log_is_that_of_its_files(
    make_topic: MakeTopic, open_producer: OpenProducer, value_bytes: int
) -> None:
    topic = make_topic(f"log{value_bytes}")
    count = 300
    producer = open_producer(None)
    producer.begin()
    keys, values = random_bytes(count, KEY_BYTES), random_bytes(count, value_bytes)
    producer.send(topic, keys, values, np.full(count, 1_000), partition=0)
    producer.commit({}, topic)
    estimate = log_record_bytes(KEY_BYTES, value_bytes, records_per_batch=count) * count
    assert log_bytes(topic) == pytest.approx(estimate, rel=0.02)
