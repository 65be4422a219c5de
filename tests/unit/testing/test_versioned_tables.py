"""Versioned tables and joins with grace: what Kafka Streams refuses or gets wrong, failed batches, cuts of batches."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from millrace.dsl import (
    BufferConfig,
    Consumed,
    Joined,
    JoinWindows,
    KTable,
    Materialized,
    Produced,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from millrace.errors import ProcessingError, TopologyError
from millrace.serdes import StringSerde
from millrace.testing import TestRecord, TopologyTestDriver
from millrace.topology.topology import FrozenTopology

S = StringSerde()
STRINGS = Consumed.with_(S, S)
HISTORY = Stores.persistent_versioned_key_value_store("table", 20)


def joined(value: Any, row: Any) -> str:
    if value == "fail":
        raise ValueError(value)
    return f"{value}|{row}"


def topology(grace: int = 10, kind: str = "join") -> FrozenTopology:
    b = StreamsBuilder()
    table = b.table("t", STRINGS, Materialized.as_(HISTORY))
    stream = b.stream("s", STRINGS)
    options = Joined.with_(S, S).with_grace_period(grace)
    joins: dict[str, Callable[..., Any]] = {"join": stream.join, "left_join": stream.left_join}
    joins[kind](table, joined, joined=options).to("out", Produced.with_(S, S))
    return b.build()


def output(driver: TopologyTestDriver) -> list[tuple[Any, Any, int | None]]:
    records = driver.create_output_topic("out", S, S).read_records()
    return [(record.key, record.value, record.timestamp) for record in records]


def test_a_left_join_with_grace_gives_a_null_key_its_null_result_at_once() -> None:
    """Kafka Streams' task dies of such a record."""
    with TopologyTestDriver(topology(kind="left_join")) as driver:
        stream = driver.create_input_topic("s", S, S)
        stream.pipe_input("a", "waits", timestamp=5)
        stream.pipe_input(None, "no key", timestamp=50)
        assert output(driver) == [(None, "no key|None", 50)]
        stream.pipe_input("a", "later", timestamp=15)
        assert output(driver) == [("a", "waits|None", 5)]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda b: b.table("t", STRINGS, Materialized.as_("plain")), "is not versioned"),
        (lambda b: b.table("t", STRINGS), "is not versioned"),
        (
            lambda b: b.table("t", STRINGS, Materialized.as_(HISTORY)).map_values(
                lambda key, value: value, Materialized.as_("plain")
            ),
            "is not versioned",
        ),
        (
            lambda b: b.table("t", STRINGS, Materialized.as_(HISTORY)).join(
                b.table("u", STRINGS, Materialized.as_(Stores.persistent_versioned_key_value_store("u", 20))), joined
            ),
            "is not versioned",
        ),
        (
            lambda b: b.table("t", STRINGS, Materialized.as_(Stores.persistent_versioned_key_value_store("u", 9))),
            "waits 10 ms for late updates, but store 'u' keeps 9 ms",
        ),
    ],
)
def test_a_grace_period_needs_a_versioned_table_with_as_much_history(
    make: Callable[[StreamsBuilder], KTable], said: str
) -> None:
    b = StreamsBuilder()
    b.stream("s", STRINGS).join(make(b), joined, joined=Joined.with_(S, S).with_grace_period(10)).to("out")
    with pytest.raises(TopologyError, match=said):
        b.build()


def test_what_cannot_be_versioned_is_refused() -> None:
    b = StreamsBuilder()
    grouped = b.stream("s", STRINGS).group_by_key()
    with pytest.raises(TopologyError, match="its table has windows"):
        grouped.windowed_by(TimeWindows.of_size_with_no_grace(10)).count(Materialized.as_(HISTORY))
    with pytest.raises(TopologyError, match="cannot be versioned"):
        b.global_table("g", STRINGS, Materialized.as_(HISTORY))
    versions = b.table("t", STRINGS, Materialized.as_(HISTORY)).filter(lambda key, value: True)
    limit = Suppressed.until_time_limit(10, BufferConfig.unbounded())
    versions.suppress(limit).to_stream().to("out")
    with pytest.raises(TopologyError, match="suppresses updates of a versioned table"):
        b.build()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Stores.persistent_versioned_key_value_store("t", -1), "0 ms or more"),
        (lambda: Stores.persistent_versioned_key_value_store("t", 10, 0), "1 ms or more"),
        (lambda: Joined.with_(S, S).with_grace_period(-1), "0 ms or more"),
    ],
)
def test_impossible_times_are_refused(make: Callable[[], object], said: str) -> None:
    with pytest.raises(TopologyError, match=said):
        make()


def test_a_failed_batch_leaves_buffer_and_history_as_they_were() -> None:
    with TopologyTestDriver(topology()) as driver:
        table, stream = driver.create_input_topic("t", S, S), driver.create_input_topic("s", S, S)
        table.pipe_input("a", "1", timestamp=5)
        stream.pipe_batch([TestRecord("a", "first", 6), TestRecord("a", "fail", 7)])
        orders = [(stream, TestRecord("a", "second", 9)), (stream, TestRecord("a", "x", 30))]
        with pytest.raises(ProcessingError, match="ValueError: fail"):
            driver.pipe_batch([(table, TestRecord("a", "2", 6)), *orders])
        assert driver.versioned_store("table").versions("a") == [("1", 5, None)]
        assert output(driver) == []


def random_records(chance: random.Random) -> list[tuple[str, TestRecord]]:
    """In the order in which Kafka Streams takes records that wait in both topics, late ones among them."""
    records: list[tuple[int, str, TestRecord]] = []
    now, newest = 0, {"s": 0, "t": 0}
    for number in range(60):
        now += chance.choice((0, 1, 2, 9))
        value = None if chance.random() < 0.1 else str(number)
        time = max(0, now - chance.choice((0, 0, 1, 5, 12, 30)))
        name = chance.choice("st")
        newest[name] = max(newest[name], time)
        records.append((newest[name], name, TestRecord(chance.choice("ab"), value, time)))
    return [(name, record) for _, name, record in sorted(records, key=lambda record: record[:2])]


@pytest.mark.parametrize("seed", range(20))
def test_the_cuts_of_batches_make_no_difference(seed: int) -> None:
    records = random_records(random.Random(seed))
    results = []
    for size in (1, 7, 60):
        with TopologyTestDriver(topology(grace=5, kind="left_join")) as driver:
            topics = {name: driver.create_input_topic(name, S, S) for name in "st"}
            for first in range(0, len(records), size):
                driver.pipe_batch([(topics[name], record) for name, record in records[first : first + size]])
            store = driver.versioned_store("table")
            results.append((output(driver), [store.versions(key) for key in "ab"], driver.changelogs))
    assert results[0] == results[1] == results[2]


def test_case_j04_a_null_result_waits_for_the_side_that_can_still_match() -> None:
    """Case J04: bounds before and after are those of the left record."""
    assert _asymmetric(0, 100, [("l", "k", "A0", 0), ("l", "o", "A1", 50), ("r", "k", "a0", 100)]) == [
        ("k", "A0|a0", 100)
    ]
    second = [("l", "k", "A0", 0), ("r", "o", "x", 100)]
    assert _asymmetric(0, 100, second) == []
    assert _asymmetric(0, 100, [*second, ("r", "o", "y", 101)]) == [("k", "A0|None", 0)]
    assert _asymmetric(100, 0, [("l", "k", "A0", 0), ("r", "o", "x", 1)]) == []


def _asymmetric(before: int, after: int, records: list[tuple[str, str, str, int]]) -> list[tuple[Any, Any, int | None]]:
    b = StreamsBuilder()
    windows = JoinWindows.of_time_difference_with_no_grace(100).before(before).after(after)
    left, right = b.stream("l", STRINGS), b.stream("r", STRINGS)
    left.left_join(right, joined, windows, StreamJoined.with_(S, S, S)).to("out", Produced.with_(S, S))
    with TopologyTestDriver(b.build()) as driver:
        topics = {name: driver.create_input_topic(name, S, S) for name in "lr"}
        for topic, key, value, time in records:
            topics[topic].pipe_input(key, value, timestamp=time)
        return output(driver)
