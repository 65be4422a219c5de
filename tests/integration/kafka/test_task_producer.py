from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from millrace.errors import OperationError, RecordTooLargeError, TaskMigratedError, TransactionAbortedError
from millrace.kafka.clients import base_settings
from millrace.kafka.commit_metadata import CommitMetadata
from millrace.kafka.murmur2 import partition_for, partitions_for
from millrace.kafka.producer import TaskProducer
from millrace.kafka.record_limits import TopicLimits
from tests.waiting import PATIENCE


def _send(producer: TaskProducer, topic: str, values: list[bytes | None], **options: object) -> None:
    keys = [f"k{row}".encode() for row in range(len(values))]
    timestamps = np.arange(1_000, 1_000 + len(values), dtype=np.int64)
    producer.send(topic, keys, values, timestamps, **{"partition": 0, **options})  # type: ignore[arg-type]


def _committed(bootstrap_servers: str, group: str, topic: str) -> tuple[int, str]:
    consumer = Consumer({**base_settings(bootstrap_servers), "group.id": group})
    try:
        found = consumer.committed([TopicPartition(topic, 0)], timeout=10)[0]
        return found.offset, found.metadata or ""
    finally:
        consumer.close()


def test_records_and_offsets_with_metadata_become_visible_together(
    bootstrap_servers: str, make_topic: Callable[..., str], unique: str, open_producer, read_all
) -> None:
    source, output = make_topic("in"), make_topic("out")
    producer = open_producer(f"{unique}-0_0")
    metadata = CommitMetadata(1_234, {"millrace.run": 3, "changelog.counts": 17})
    producer.begin()
    _send(producer, output, [b"a", None, b"c"], headers=[None, [("h", b"1")], []])
    producer.flush()
    assert [record.value for record in read_all(output)] == []
    producer.commit({(source, 0): (42, metadata.encode())}, unique)

    records = read_all(output)
    assert [(r.key, r.value, r.timestamp) for r in records] == [
        (b"k0", b"a", 1_000),
        (b"k1", None, 1_001),
        (b"k2", b"c", 1_002),
    ]
    assert records[1].headers == [("h", b"1")]
    offset, text = _committed(bootstrap_servers, unique, source)
    assert offset == 42
    assert CommitMetadata.decode(text) == metadata


def test_an_aborted_transaction_leaves_no_record_and_no_offset(
    bootstrap_servers: str, make_topic, unique: str, open_producer, read_all
) -> None:
    source, output = make_topic("in"), make_topic("out")
    producer = open_producer(f"{unique}-0_0")
    producer.begin()
    _send(producer, output, [b"lost"])
    producer.flush()
    producer.abort()
    producer.begin()
    _send(producer, output, [b"kept"])
    producer.commit({(source, 0): (1, "")}, unique)
    assert [record.value for record in read_all(output)] == [b"kept"]
    assert _committed(bootstrap_servers, unique, source)[0] == 1


def test_the_end_offset_of_tracked_records_is_known_before_the_commit(make_topic, unique: str, open_producer) -> None:
    changelog, output = make_topic("changelog", partitions=3), make_topic("out")
    producer = open_producer(f"{unique}-0_0")
    producer.begin()
    targets = np.array([0, 2, 0, 2, 2], np.int32)
    keys: list[bytes | None] = [b"a", b"b", b"c", b"d", b"e"]
    producer.send(changelog, keys, list(keys), np.zeros(5, np.int64), partitions=targets, track=True)
    producer.send(changelog, keys[:1], keys[:1], np.zeros(1, np.int64), partition=2, track=True)
    _send(producer, output, [b"x"])
    producer.flush()
    assert producer.sent_end_offset(changelog, 0) == 2
    assert producer.sent_end_offset(changelog, 1) is None
    assert producer.sent_end_offset(changelog, 2) == 4
    assert producer.sent_end_offset(output, 0) is None
    producer.commit({}, unique)
    producer.begin()
    assert producer.sent_end_offset(changelog, 2) is None, "ends belong to one transaction"
    producer.send(changelog, keys[:1], keys[:1], np.zeros(1, np.int64), partition=2, track=True)
    producer.commit({}, unique)
    assert producer.sent_end_offset(changelog, 2) == 6, "the first transaction's marker took offset 4"


def test_a_newer_producer_of_the_same_id_fences_the_older(make_topic, unique: str, open_producer, read_all) -> None:
    """Case E06."""
    source, output = make_topic("in"), make_topic("out")
    older = open_producer(f"{unique}-0_0")
    older.begin()
    _send(older, output, [b"old"])
    older.flush()
    newer = open_producer(f"{unique}-0_0")
    newer.begin()
    _send(newer, output, [b"new"])
    newer.commit({(source, 0): (10, "")}, unique)
    with pytest.raises(TaskMigratedError, match=f"{unique}-0_0"):
        older.commit({(source, 0): (10, "")}, unique)
    assert not older.is_usable
    with pytest.raises(OperationError, match="discarded"):
        older.begin()
    assert [record.value for record in read_all(output)] == [b"new"]


def test_a_transaction_that_outlives_its_timeout_is_processed_again_by_a_new_producer(
    bootstrap_servers: str, make_topic, unique: str, open_producer, read_all
) -> None:
    """Case E04."""
    source, output = make_topic("in"), make_topic("out")
    slow = open_producer(f"{unique}-0_0", transaction_timeout_ms=1_000)
    slow.begin()
    _send(slow, output, [b"1"])
    slow.flush()
    # The broker looks for timed-out transactions every ten seconds; its abort marker is the sign that it has.
    admin = AdminClient(base_settings(bootstrap_servers))
    consumer = Consumer({**base_settings(bootstrap_servers), "group.id": unique})
    deadline = time.monotonic() + 60 * PATIENCE
    while consumer.get_watermark_offsets(TopicPartition(output, 0), timeout=5)[1] < 2:
        assert time.monotonic() < deadline
        admin.poll(0.2)
    consumer.close()
    with pytest.raises(TransactionAbortedError):
        slow.commit({(source, 0): (1, "")}, unique)
    again = open_producer(f"{unique}-0_0")
    again.begin()
    _send(again, output, [b"1"])
    again.commit({(source, 0): (1, "")}, unique)
    assert [record.value for record in read_all(output)] == [b"1"]
    assert _committed(bootstrap_servers, unique, source)[0] == 1


def test_a_thousand_small_transactions_in_a_row_lose_and_double_nothing(
    make_topic, unique: str, open_producer, read_all
) -> None:
    """Case E15."""
    source, output = make_topic("in"), make_topic("out", partitions=50)
    producer = open_producer(f"{unique}-0_0")
    for row in range(1_000):
        producer.begin()
        producer.send(output, [b"k"], [b"%d" % row], np.zeros(1, np.int64), partition=row % 50)
        producer.commit({(source, 0): (row + 1, "")}, unique)
    values = [int(record.value) for partition in range(50) for record in read_all(output, partition)]
    assert sorted(values) == list(range(1_000))


def test_records_go_where_a_java_producer_would_send_them(make_topic, unique: str, open_producer, read_all) -> None:
    """Case J13."""
    output = make_topic("out", partitions=4)
    names: list[bytes | None] = [b"a", b"b", b"c", b"alice", b"bob", b"user-2"]
    producer = open_producer(f"{unique}-0_0")
    producer.begin()
    producer.send(output, names, names, np.zeros(6, np.int64))
    producer.send(output, names, names, np.zeros(6, np.int64), partitions=partitions_for(names, 4))
    producer.commit({}, unique)
    for partition in range(4):
        there = [name for name in names if name is not None and partition_for(name, 4) == partition]
        assert sorted(record.key for record in read_all(output, partition)) == sorted(there * 2)


def test_a_record_above_the_topics_limit_is_refused_before_it_is_sent(
    make_topic, unique: str, open_producer, read_all
) -> None:
    """Case P03."""
    output = make_topic("out", max_message_bytes="2000")
    producer = open_producer(f"{unique}-0_0", topic_limits={output: TopicLimits(max_message_bytes=2000)})
    producer.begin()
    with pytest.raises(RecordTooLargeError, match=r"Record 1 .*2[0-9]{3} bytes \(key b'k1'\).*takes 2000"):
        _send(producer, output, [b"small", b"x" * 2_000])
    producer.abort()
    producer.begin()
    _send(producer, output, [b"x" * 1_900] * 50)
    producer.commit({}, unique)
    assert len(read_all(output)) == 50


def test_a_record_that_the_broker_refuses_aborts_the_transaction_and_a_new_producer_goes_on(
    make_topic, unique: str, open_producer, read_all
) -> None:
    output = make_topic("out", max_message_bytes="2000")
    producer = open_producer(f"{unique}-0_0")
    producer.begin()
    _send(producer, output, [b"x" * 3_000])
    with pytest.raises(TransactionAbortedError):
        producer.commit({}, unique)
    assert not producer.is_usable
    again = open_producer(f"{unique}-0_0")
    again.begin()
    _send(again, output, [b"fits"])
    again.commit({}, unique)
    assert [record.value for record in read_all(output)] == [b"fits"]


def test_without_a_transactional_id_records_are_acknowledged_before_the_offsets_are_committed(
    bootstrap_servers: str, make_topic, unique: str, open_producer, read_all
) -> None:
    source, output = make_topic("in"), make_topic("out")
    producer = open_producer(None)
    producer.begin()
    _send(producer, output, [b"a", b"b"])
    producer.flush()
    assert producer.sent_end_offset(output, 0) == 2
    producer.commit({(source, 0): (7, CommitMetadata(5, {"millrace.run": 1}).encode())}, unique)
    assert [record.value for record in read_all(output)] == [b"a", b"b"]
    offset, text = _committed(bootstrap_servers, unique, source)
    assert (offset, CommitMetadata.decode(text)) == (7, CommitMetadata(5, {"millrace.run": 1}))


def test_without_a_transactional_id_a_lost_record_stops_the_offsets(
    bootstrap_servers: str, make_topic, unique: str, open_producer
) -> None:
    source, output = make_topic("in"), make_topic("out", max_message_bytes="2000")
    producer = open_producer(None)
    producer.begin()
    _send(producer, output, [b"fits", b"x" * 3_000])
    with pytest.raises(TransactionAbortedError):
        producer.commit({(source, 0): (2, "")}, unique)
    assert _committed(bootstrap_servers, unique, source)[0] < 0


def test_a_full_send_queue_is_waited_for_and_keeps_the_order(make_topic, unique: str, open_producer, read_all) -> None:
    output = make_topic("out")
    producer = open_producer(f"{unique}-0_0", settings={"queue.buffering.max.messages": "100"})
    producer.begin()
    _send(producer, output, [b"%d" % row for row in range(2_500)], track=True)
    producer.flush()
    assert producer.sent_end_offset(output, 0) == 2_500
    producer.commit({}, unique)
    assert [int(record.value) for record in read_all(output)] == list(range(2_500))


def test_taking_an_id_over_does_not_wait_for_the_next_search_for_the_coordinator(
    make_topic, unique: str, open_producer
) -> None:
    """librdkafka searches again after half a second, and without a connection every other first search fails."""
    output = make_topic("out")
    times = []
    for _ in range(10):
        begun = time.monotonic()
        open_producer(f"{unique}-0_0", topic_limits={output: TopicLimits(max_message_bytes=1_000_000)})
        times.append(time.monotonic() - begun)
    assert sorted(times)[7] < 0.4, times
