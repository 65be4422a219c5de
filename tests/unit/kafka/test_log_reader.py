"""Ranges of logs, read from a broker that librdkafka imitates."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from millrace.errors import BrokerUnavailableError
from millrace.kafka import log_reader
from millrace.kafka.clients import kafka_error
from millrace.kafka.log_reader import IsolationLevel, LogReader, OutOfRange, offset_of
from millrace.topology.topic_partition import TopicPartition
from tests.imitated_cluster import ImitatedCluster
from tests.records import Record, produce

LIMIT_S = 30.0
ONE, TWO = ("orders", 0), ("orders", 1)


@pytest.fixture
def filled(cluster: ImitatedCluster) -> ImitatedCluster:
    """Two partitions with five records each."""
    produce(
        cluster.bootstrap_servers,
        "orders",
        [Record(b"k", b"%d" % number, 1, partition=partition) for partition in range(2) for number in range(5)],
    )
    return cluster


def reader_of(cluster: ImitatedCluster, *, out_of_range: OutOfRange = OutOfRange.ERROR) -> LogReader:
    return LogReader(
        cluster.bootstrap_servers,
        None,
        group="any",
        isolation=IsolationLevel.READ_UNCOMMITTED,
        out_of_range=out_of_range,
    )


def offsets(
    reader: LogReader, starts: dict[TopicPartition, int], ends: dict[TopicPartition, int] | None = None
) -> dict[TopicPartition, list[int]]:
    found: dict[TopicPartition, list[int]] = {}
    for message in reader.read(starts, ends, timeout_s=LIMIT_S):
        topic, partition = message.topic(), message.partition()
        assert topic is not None
        assert partition is not None
        assert message.value() == b"%d" % offset_of(message)
        found.setdefault((topic, partition), []).append(offset_of(message))
    return found


def test_each_partition_is_read_from_its_start_to_its_end(filled: ImitatedCluster) -> None:
    with reader_of(filled) as reader:
        assert offsets(reader, {ONE: 1, TWO: 3}, {ONE: 4, TWO: 5}) == {ONE: [1, 2, 3], TWO: [3, 4]}


def test_a_partition_without_an_end_is_read_to_the_end_of_its_log(filled: ImitatedCluster) -> None:
    with reader_of(filled) as reader:
        assert offsets(reader, {ONE: 3, TWO: 1}, {TWO: 2}) == {ONE: [3, 4], TWO: [1]}
        assert offsets(reader, {ONE: 5}) == {}


def test_an_end_behind_the_log_s_is_the_log_s(filled: ImitatedCluster) -> None:
    with reader_of(filled) as reader:
        assert offsets(reader, {ONE: 3}, {ONE: 100}) == {ONE: [3, 4]}


def test_an_empty_range_asks_no_broker() -> None:
    with LogReader("127.0.0.1:9", None, group="any", isolation=IsolationLevel.READ_COMMITTED) as reader:
        assert list(reader.read({ONE: 5}, {ONE: 5}, timeout_s=0)) == []


def test_a_reading_that_was_left_leaves_nothing_for_the_next(filled: ImitatedCluster) -> None:
    with reader_of(filled) as reader:
        first = next(reader.read({ONE: 0, TWO: 0}, timeout_s=LIMIT_S))
        assert offset_of(first) == 0
        assert offsets(reader, {TWO: 4}) == {TWO: [4]}


def test_a_start_that_the_log_does_not_have_is_an_error_or_its_beginning(filled: ImitatedCluster) -> None:
    with reader_of(filled) as reader, pytest.raises(KafkaException) as raised:
        offsets(reader, {ONE: 1_000}, {ONE: 1_001})
    assert kafka_error(raised.value).code() == KafkaError._AUTO_OFFSET_RESET
    with reader_of(filled, out_of_range=OutOfRange.EARLIEST) as reader:
        assert offsets(reader, {ONE: 1_000}, {ONE: 1_001}) == {ONE: [0, 1, 2, 3, 4]}


def test_a_broker_that_gives_nothing_is_named_with_what_is_missing_once_the_time_is_over() -> None:
    with (
        LogReader("127.0.0.1:9", None, group="any", isolation=IsolationLevel.READ_COMMITTED) as reader,
        pytest.raises(BrokerUnavailableError, match=r"127.0.0.1:9 did not .* orders-0 \(offset 3\), orders-1 within"),
    ):
        list(reader.read({ONE: 0, TWO: 0}, {ONE: 3}, timeout_s=0.1))


def test_the_time_that_a_caller_takes_for_a_record_is_no_silence(
    filled: ImitatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + taken)
    monkeypatch.setattr(log_reader, "time", clock)
    found = []
    with reader_of(filled) as reader:
        for message in reader.read({ONE: 0, TWO: 0}, timeout_s=LIMIT_S, is_timeout_of_silence=True):
            found.append(offset_of(message))
            taken += 2 * LIMIT_S
    assert sorted(found) == sorted([*range(5), *range(5)])
