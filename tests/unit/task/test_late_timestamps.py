"""Records whose timestamps are in microseconds or nanoseconds, or the largest there is, beside others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from millrace.dsl import (
    Consumed,
    KTable,
    Produced,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
)
from millrace.metrics import DropReason
from millrace.serdes import LongSerde, StringSerde
from millrace.testing import TestRecord, TopologyTestDriver
from millrace.topology.topology import FrozenTopology

TEXT = StringSerde()
SECOND = timedelta(seconds=1)
NOW = 1_795_947_275_026
MICROS, NANOS, LARGEST = NOW * 1_000, NOW * 1_000_000, 2**63 - 1


def counted(windows: Callable[[object], KTable]) -> FrozenTopology:
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed.with_(TEXT, TEXT)).group_by_key()
    stream = windows(grouped).to_stream()
    stream.map(lambda key, value: (f"{key.key} {key.start} {key.end}", value)).to(
        "out", Produced.with_(TEXT, LongSerde())
    )
    return builder.build()


def results(
    topology: FrozenTopology, records: list[TestRecord], *, together: bool
) -> tuple[dict[str, tuple[int, int | None]], dict[DropReason, int]]:
    """Last count and timestamp of every window, and what was dropped."""
    with TopologyTestDriver(topology) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        if together:
            topic.pipe_batch(records)
        else:
            for record in records:
                topic.pipe_input(record.key, record.value, record.timestamp)
        out = driver.create_output_topic("out", TEXT, LongSerde()).read_records()
        last = {str(each.key): (each.value, each.timestamp) for each in out}
        return {key: found for key, found in last.items() if found[0] is not None}, dict(driver.dropped)


WINDOWS = {
    "tumbling": lambda grouped: grouped.windowed_by(TimeWindows.of_size_with_no_grace(SECOND)).count(),
    "hopping": lambda grouped: grouped.windowed_by(
        TimeWindows.of_size_with_no_grace(SECOND).advance_by(SECOND / 2)
    ).count(),
    "sliding": lambda grouped: grouped.windowed_by(SlidingWindows.of_time_difference_with_no_grace(SECOND)).count(),
    "session": lambda grouped: grouped.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(SECOND)).count(),
}


@pytest.mark.parametrize("kind", WINDOWS)
def test_windows_of_any_times_are_the_same_in_a_batch_as_record_by_record(kind: str) -> None:
    """Case E18: many keys, whose times are as far apart as they can be."""
    keys = [f"k{number}" for number in range(20)]
    records = [TestRecord(key, "v", time) for time in (NOW, NOW + 10, MICROS, NANOS, NANOS + 10) for key in keys]
    topology = counted(WINDOWS[kind])
    one_by_one = results(topology, records, together=False)
    assert results(topology, records, together=True) == one_by_one
    if kind == "session":
        assert all(one_by_one[0][f"{key} {NANOS} {NANOS + 10}"] == (2, NANOS + 10) for key in keys)
        assert one_by_one[0][f"k7 {NOW} {NOW + 10}"] == (2, NOW + 10)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("kind", WINDOWS)
def test_a_time_at_which_no_window_ends_is_invalid_and_stops_nothing(kind: str, together: bool) -> None:
    """Case E18: Kafka Streams ends at such a record, since the end of its window does not fit in 64 bits."""
    records = [TestRecord("a", "1", NOW), TestRecord("a", "2", LARGEST), TestRecord("a", "3", NOW + 5)]
    shown, dropped = results(counted(WINDOWS[kind]), records, together=together)
    assert dropped == {DropReason.NEGATIVE_TIMESTAMP: 1}
    assert max(count for count, _ in shown.values()) == 2


@pytest.mark.parametrize("together", [True, False])
def test_without_windows_every_time_is_valid(together: bool) -> None:
    """Case E18."""
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, TEXT))
    stream.to("out", Produced.with_(TEXT, TEXT))
    stream.group_by_key().count().to_stream().to("counts", Produced.with_(TEXT, LongSerde()))
    times = [NOW, MICROS, NANOS, LARGEST, NOW + 1]
    with TopologyTestDriver(builder.build(), {"statestore.cache.max.bytes": 0}) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        records = [TestRecord("a", "v", time) for time in times]
        if together:
            topic.pipe_batch(records)
        else:
            for record in records:
                topic.pipe_input(record.key, record.value, record.timestamp)
        assert [each.timestamp for each in driver.create_output_topic("out", TEXT, TEXT).read_records()] == times
        last = driver.create_output_topic("counts", TEXT, LongSerde()).read_records()[-1]
        assert (last.value, last.timestamp) == (5, LARGEST)
        assert driver.dropped == {}
