"""What lies between a committed offset and what Spark brings is read by the task itself, a bounded part at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millrace.config import StreamsConfig
from millrace.errors import OffsetOutOfRangeError
from millrace.kafka.admin import KafkaAdmin
from millrace.task.gap_reader import read_gap
from tests.records import Record, produce, produce_transaction


def config_of(bootstrap_servers: str, name: str) -> StreamsConfig:
    return StreamsConfig.from_mapping({"application.id": name, "bootstrap.servers": bootstrap_servers})


def test_a_gap_that_ends_in_aborted_records_is_whole(
    bootstrap_servers: str, unique: str, make_topic: Callable[..., str]
) -> None:
    """Case S03."""
    topic = make_topic()
    produce(bootstrap_servers, topic, [Record(b"k", b"%d" % number, 7, partition=0) for number in range(4)])
    aborted = [Record(b"k", b"aborted", 7, partition=0)] * 3
    produce_transaction(bootstrap_servers, topic, aborted, transactional_id=unique, commit=False)

    rows, reached = read_gap(config_of(bootstrap_servers, unique), ("other", topic), (topic, 0), start=1, end=8)

    assert reached == 8
    assert rows.values.to_pylist() == [b"1", b"2", b"3"]
    assert rows.offset.tolist() == [1, 2, 3]
    assert rows.timestamp.tolist() == [7, 7, 7]
    assert rows.topic.tolist() == [1, 1, 1]


def test_records_behind_the_gap_are_left(bootstrap_servers: str, unique: str, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    produce(bootstrap_servers, topic, [Record(b"k", b"%d" % number, 7, partition=0) for number in range(9)])

    rows, reached = read_gap(config_of(bootstrap_servers, unique), (topic,), (topic, 0), start=2, end=5)

    assert (rows.offset.tolist(), reached) == ([2, 3, 4], 5)


def test_a_gap_of_too_many_bytes_is_read_in_parts(
    bootstrap_servers: str, unique: str, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millrace.task.gap_reader.GAP_LIMIT_BYTES", 1)
    topic = make_topic()
    # A batch a request, and no request while there is one that was not taken: else a slow reader finds all of them.
    settings = {"consumer.fetch.message.max.bytes": "10000", "consumer.queued.min.messages": "1"}
    for number in range(4):
        produce(bootstrap_servers, topic, [Record(b"k", b"%d" % number * 20_000, 7, partition=0)])
    config = StreamsConfig.from_mapping({"application.id": unique, "bootstrap.servers": bootstrap_servers, **settings})
    position, parts = 0, 0
    found: list[int] = []
    while position < 4:
        rows, reached = read_gap(config, (topic,), (topic, 0), start=position, end=4)
        assert len(rows) == reached - position > 0
        found += rows.offset.tolist()
        parts += 1
        position = reached
    assert found == [0, 1, 2, 3]
    assert parts > 1


def test_a_gap_whose_begin_is_gone_is_an_error(
    bootstrap_servers: str, unique: str, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    produce(bootstrap_servers, topic, [Record(b"k", b"v", 7, partition=0)] * 5)
    KafkaAdmin(bootstrap_servers).delete_records({(topic, 0): 3})
    with pytest.raises(OffsetOutOfRangeError, match=f"Offset 1 of {topic}-0"):
        read_gap(config_of(bootstrap_servers, unique), (topic,), (topic, 0), start=1, end=5)
