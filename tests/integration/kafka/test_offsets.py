from __future__ import annotations

import numpy as np
import pytest
from confluent_kafka import TopicPartition

from millrace.errors import OperationError, StateError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.commit_metadata import MAX_METADATA_BYTES, CommitMetadata
from millrace.kafka.group_commits import group_metadata
from millrace.kafka.offsets import (
    CommittedOffset,
    End,
    begin_offsets,
    committed_offsets,
    end_offsets,
    lag,
    offsets_for_times,
)
from tests.waiting import eventually


@pytest.fixture
def admin(bootstrap_servers: str) -> KafkaAdmin:
    return KafkaAdmin(bootstrap_servers)


def lags(admin: KafkaAdmin, group: str, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], int | None]:
    committed = committed_offsets(admin, group, partitions, stable=False)
    ends = end_offsets(admin, partitions)
    return {partition: lag(committed.get(partition), ends.get(partition)) for partition in partitions}


def _transaction(producer, topic: str, count: int, *, first_timestamp: int = 0, commit: bool = True) -> None:
    producer.begin()
    timestamps = np.arange(first_timestamp, first_timestamp + count, dtype=np.int64)
    producer.send(topic, [b"k"] * count, [b"v"] * count, timestamps, partition=0)
    producer.flush()
    if commit:
        producer.commit({}, "unused")


def test_lag_is_zero_when_a_transactional_topic_is_read_to_its_end(
    admin: KafkaAdmin, make_topic, open_producer, unique: str
) -> None:
    """Case E01."""
    topic, output = make_topic("in"), make_topic("out")
    producer = open_producer(f"{unique}-in")
    for _ in range(3):
        _transaction(producer, topic, 1)
    eventually(lambda: end_offsets(admin, [(topic, 0)]), {(topic, 0): 6})
    task = open_producer(f"{unique}-0_0")
    task.begin()
    task.send(output, [b"k"], [b"v"], np.zeros(1, np.int64), partition=0)
    task.commit({(topic, 0): (6, "")}, unique)
    # A commit returns when it is decided; its markers follow within moments.
    eventually(lambda: lags(admin, unique, [(topic, 0)]), {(topic, 0): 0})


def test_a_partition_without_a_committed_offset_has_an_unknown_lag(
    admin: KafkaAdmin, make_topic, open_producer, unique: str
) -> None:
    """Case M02."""
    topic = make_topic("in", partitions=2)
    producer = open_producer(f"{unique}-in")
    _transaction(producer, topic, 9)
    assert committed_offsets(admin, unique) == {}
    assert lags(admin, unique, [(topic, 0), (topic, 1)]) == {(topic, 0): None, (topic, 1): None}
    producer.begin()
    producer.commit({(topic, 0): (4, "note")}, unique)
    assert committed_offsets(admin, unique, [(topic, 0)]) == {(topic, 0): CommittedOffset(4, "note")}
    assert committed_offsets(admin, unique) == {(topic, 0): CommittedOffset(4, "note")}
    assert lags(admin, unique, [(topic, 0), (topic, 1)]) == {(topic, 0): 6, (topic, 1): None}


def test_the_last_stable_offset_stands_before_an_open_transaction(
    admin: KafkaAdmin, make_topic, open_producer, unique: str
) -> None:
    topic = make_topic("in")
    producer = open_producer(f"{unique}-in")
    _transaction(producer, topic, 2)
    _transaction(producer, topic, 3, commit=False)
    assert end_offsets(admin, [(topic, 0)], End.LAST_STABLE) == {(topic, 0): 3}
    assert end_offsets(admin, [(topic, 0)], End.HIGH_WATERMARK) == {(topic, 0): 6}
    producer.abort()
    eventually(lambda: end_offsets(admin, [(topic, 0)], End.LAST_STABLE), {(topic, 0): 7})


def test_offsets_of_an_open_transaction_are_waited_for_within_the_limit(
    bootstrap_servers: str, make_topic, open_producer, unique: str
) -> None:
    topic = make_topic("in")
    producer = open_producer(f"{unique}-0_0")
    producer.begin()
    producer._client.send_offsets_to_transaction([TopicPartition(topic, 0, 9)], group_metadata(unique), 10)
    hasty = KafkaAdmin(bootstrap_servers, timeout_s=1)
    with pytest.raises(OperationError, match=f"group {unique} was still open after 1 s"):
        committed_offsets(hasty, unique, [(topic, 0)])
    assert committed_offsets(hasty, unique, [(topic, 0)], stable=False) == {}
    producer.abort()
    assert committed_offsets(hasty, unique, [(topic, 0)]) == {}


def test_offsets_for_times_are_those_of_the_first_later_record(
    admin: KafkaAdmin, make_topic, open_producer, unique: str
) -> None:
    topic = make_topic("in", partitions=2)
    _transaction(open_producer(f"{unique}-in"), topic, 10, first_timestamp=1_000)
    assert offsets_for_times(admin, {(topic, 0): 1_004, (topic, 1): 0}) == {(topic, 0): 4, (topic, 1): None}
    # A transaction's marker is a record with the time of its commit.
    eventually(lambda: offsets_for_times(admin, {(topic, 0): 2_000}), {(topic, 0): 10})
    assert offsets_for_times(admin, {(topic, 0): 2**62}) == {(topic, 0): None}
    assert begin_offsets(admin, []) == {}


def test_a_partition_that_does_not_exist_is_an_error_that_names_it(admin: KafkaAdmin, make_topic) -> None:
    topic = make_topic("in")
    with pytest.raises(OperationError, match=f"{topic}-7"):
        end_offsets(admin, [(topic, 0), (topic, 7)])


def test_a_broker_takes_the_longest_metadata(admin: KafkaAdmin, make_topic, open_producer, unique: str) -> None:
    """A byte more is the one that the client library sends after the text."""
    topic = make_topic("in")
    with pytest.raises(StateError, match=f"a broker takes {MAX_METADATA_BYTES}"):
        CommitMetadata(0, {"x" * 3_045: 1}).encode()
    longest = CommitMetadata(0, {"x" * 3_044: 1}).encode()
    producer = open_producer(unique)
    producer.begin()
    producer.commit({(topic, 0): (1, longest)}, unique)
    assert committed_offsets(admin, unique, [(topic, 0)]) == {(topic, 0): CommittedOffset(1, longest)}
