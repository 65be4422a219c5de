"""Each record comes once, in order, as it was produced, with the position that it leads to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millrace.errors import ConfigurationError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.columns import BEGINNING
from tests.integration.kafka.columns.reading import Reading
from tests.records import Record, produce, produce_transaction

Make = Callable[..., str]
Open = Callable[..., Reading]

LARGEST_TIMESTAMP = 2**63 - 1


def test_nulls_and_empty_bytes_are_told_apart(bootstrap_servers: str, make_topic: Make, open_reading: Open) -> None:
    topic = make_topic()
    sent: list[tuple[bytes | None, bytes | None]] = [
        (b"k", b"v"), (None, b"v"), (b"", b"v"), (b"k", None), (b"k", b""), (None, None), (b"", b""), (b"last", b"one")
    ]  # fmt: skip
    produce(bootstrap_servers, topic, [Record(key, value, 1, partition=0) for key, value in sent])
    reading = open_reading({(topic, 0): 0})
    reading.until_ends({(topic, 0): 8})
    got = reading.got[topic, 0]
    assert list(zip(got.keys, got.values, strict=True)) == sent
    assert got.offsets == list(range(8))
    assert got.position == 8
    assert got.log_end == 8


def test_columns_without_nulls_have_no_bitmap(bootstrap_servers: str, make_topic: Make, open_reading: Open) -> None:
    topic = make_topic()
    produce(bootstrap_servers, topic, [Record(b"k%d" % number, b"", 1, partition=0) for number in range(20)])
    reading = open_reading({(topic, 0): 0})
    reading.until_ends({(topic, 0): 20})
    for columns in reading.polls:
        for each in columns:
            each.keys.validate(full=True)
            assert each.keys.null_count == each.values.null_count == 0
            assert each.keys.buffers()[0] is each.values.buffers()[0] is None


def test_timestamps_of_any_size_arrive(bootstrap_servers: str, make_topic: Make, open_reading: Open) -> None:
    """Case E18."""
    topic = make_topic(message_timestamp_after_max_ms=str(LARGEST_TIMESTAMP))
    times = [1, 1_700_000_000_000, 1_700_000_000_000_000_000, LARGEST_TIMESTAMP, 2]
    produce(bootstrap_servers, topic, [Record(b"k", b"v", time, partition=0) for time in times])
    reading = open_reading({(topic, 0): 0})
    reading.until_ends({(topic, 0): 5})
    assert reading.got[topic, 0].timestamps == times


def test_a_topic_that_stamps_records_itself_gives_its_own_times(
    bootstrap_servers: str, make_topic: Make, open_reading: Open
) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    produce(bootstrap_servers, topic, [Record(b"k", b"v", 5, partition=0)])
    reading = open_reading({(topic, 0): 0})
    reading.until_ends({(topic, 0): 1})
    assert reading.got[topic, 0].timestamps[0] > 1_700_000_000_000


def test_headers_come_with_the_records_that_have_them(
    bootstrap_servers: str, make_topic: Make, open_reading: Open
) -> None:
    topic = make_topic()
    headers: list[list[tuple[str, bytes | None]]] = [
        [], [("a", b"1")], [("a", b"1"), ("a", b"2"), ("b", None), ("c", b"")], [], [("größe", b"\x00\xff")]
    ]  # fmt: skip
    produce(bootstrap_servers, topic, [Record(b"k", b"v", 1, partition=0, headers=each) for each in headers])
    reading = open_reading({(topic, 0): 0})
    reading.until_ends({(topic, 0): 5})
    assert reading.got[topic, 0].headers == [each or None for each in headers]


def test_where_no_record_has_headers_there_are_none(
    bootstrap_servers: str, make_topic: Make, open_reading: Open
) -> None:
    topic = make_topic()
    produce(bootstrap_servers, topic, [Record(b"k", b"v", 1, partition=0)] * 3)
    reading = open_reading({(topic, 0): 0})
    reading.until_ends({(topic, 0): 3})
    assert all(each.headers is None for columns in reading.polls for each in columns)


def test_records_of_a_mebibyte_arrive_whole(bootstrap_servers: str, make_topic: Make, open_reading: Open) -> None:
    topic = make_topic(max_message_bytes="2000000")
    values = [bytes([number]) * 999_000 for number in range(40)]
    for value in values:
        produce(bootstrap_servers, topic, [Record(b"k", value, 1, partition=0)])
    reading = open_reading({(topic, 0): 0}, queued_kbytes=4_096)
    reading.until_ends({(topic, 0): 40})
    assert reading.got[topic, 0].values == values


def test_every_record_of_many_partitions_comes_once_and_in_order(
    bootstrap_servers: str, make_topic: Make, open_reading: Open
) -> None:
    topics = [make_topic("a", partitions=5), make_topic("b", partitions=3)]
    sizes = {
        (topic, partition): 700 + 613 * partition
        for topic in topics
        for partition in range(5 - 2 * (topic == topics[1]))
    }
    for topic in topics:
        produce(
            bootstrap_servers,
            topic,
            [
                Record(b"%d" % number, b"%d of %d" % (number, partition), number + 1, partition=partition)
                for number in range(max(sizes.values()))
                for of, partition in sizes
                if of == topic and number < sizes[topic, partition]
            ],
        )
    reading = open_reading(dict.fromkeys(sizes, 0))
    reading.until_ends(sizes, max_records=997)
    for (topic, partition), size in sizes.items():
        got = reading.got[topic, partition]
        assert got.offsets == list(range(size))
        assert got.keys == [b"%d" % number for number in range(size)]
        assert got.values == [b"%d of %d" % (number, partition) for number in range(size)]
        assert got.timestamps == [number + 1 for number in range(size)]
        assert got.position == got.log_end == size


def test_a_poll_waits_for_the_first_record_only(bootstrap_servers: str, make_topic: Make, open_reading: Open) -> None:
    topic = make_topic()
    produce(bootstrap_servers, topic, [Record(b"k", b"v", 1, partition=0)])
    reading = open_reading({(topic, 0): 0})
    assert sum(map(len, reading.poll(timeout_s=20.0))) == 1


def test_markers_and_aborted_records_move_the_position_only(
    bootstrap_servers: str, make_topic: Make, open_reading: Open
) -> None:
    """Case S03."""
    topic = make_topic()

    def send(*values: bytes, commit: bool) -> None:
        records = [Record(b"k", value, 1, partition=0) for value in values]
        produce_transaction(bootstrap_servers, topic, records, transactional_id=f"{topic}-in", commit=commit)

    send(b"1", commit=True)
    send(b"2", b"3", commit=False)
    reading = open_reading({(topic, 0): 0})
    reading.until_ends({(topic, 0): 5})
    assert reading.got[topic, 0].values == [b"1"]
    assert reading.got[topic, 0].position == 5
    send(b"4", commit=True)
    reading.until_ends({(topic, 0): 7})
    assert reading.got[topic, 0].values == [b"1", b"4"]
    assert reading.got[topic, 0].offsets == [0, 5]


def test_a_start_in_the_middle_and_at_the_begin_of_what_is_left(
    bootstrap_servers: str, make_topic: Make, open_reading: Open
) -> None:
    topic = make_topic(partitions=2)
    produce(
        bootstrap_servers,
        topic,
        [Record(b"k", b"%d" % number, 1, partition=partition) for number in range(10) for partition in (0, 1)],
    )
    KafkaAdmin(bootstrap_servers).delete_records({(topic, 1): 4})
    reading = open_reading({(topic, 0): 7, (topic, 1): BEGINNING})
    reading.until_ends({(topic, 0): 10, (topic, 1): 10})
    assert reading.got[topic, 0].offsets == [7, 8, 9]
    assert reading.got[topic, 1].offsets == [4, 5, 6, 7, 8, 9]


def test_a_setting_that_the_client_does_not_know_is_refused(open_reading: Open) -> None:
    with pytest.raises(ConfigurationError, match=r"no\.such\.setting"):
        open_reading({}, settings={"no.such.setting": "1"})


def test_what_makes_reading_right_is_not_open_to_change(
    bootstrap_servers: str, make_topic: Make, open_reading: Open
) -> None:
    topic = make_topic()
    produce_transaction(
        bootstrap_servers, topic, [Record(b"k", b"v", 1, partition=0)], transactional_id=f"{topic}-in", commit=False
    )
    wrong = {"isolation.level": "read_uncommitted", "enable.partition.eof": "false", "auto.offset.reset": "earliest"}
    reading = open_reading({(topic, 0): 0}, settings=wrong)
    reading.until_ends({(topic, 0): 2})
    assert reading.got[topic, 0].values == []
