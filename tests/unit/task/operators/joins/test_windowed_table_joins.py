"""Joins of windowed tables in batches, with caching and without."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.dsl import (
    Consumed,
    Grouped,
    Materialized,
    Produced,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
)
from millrace.errors import ProcessingError
from millrace.serdes import LongSerde, SessionWindowedSerde, StringSerde, TimeWindowedSerde, Windowed
from millrace.testing import TestRecord, TopologyTestDriver
from millrace.topology.topology import FrozenTopology

TEXT = StringSerde()
WINDOWS: dict[str, Any] = {
    "time": TimeWindows.of_size_and_grace(10, 50),
    "sliding": SlidingWindows.of_time_difference_and_grace(10, 50),
    "session": SessionWindows.of_inactivity_gap_and_grace(5, 50),
}
INPUT = [
    ("l", "a", 1),
    ("r", "a", 2),
    ("l", "a", 4),
    ("r", "b", 3),
    ("l", "b", 12),
    ("r", "a", 11),
    ("l", "a", 14),
    ("r", "b", 14),
    ("l", "b", 17),
    ("l", "a", 7),
    ("l", "c", 5),
    ("r", "c", 5),
]


def joined(windows: Any, *, cached: bool) -> FrozenTopology:
    builder = StreamsBuilder()
    tables = []
    for topic in ("l", "r"):
        store = Materialized.as_(f"{topic}-counts")
        grouped = builder.stream(topic, Consumed.with_(TEXT, TEXT)).group_by_key(Grouped.with_(TEXT, TEXT))
        tables.append(grouped.windowed_by(windows).count(store if cached else store.with_caching_disabled()))
    both = tables[0].outer_join(tables[1], lambda left, right: f"{left}|{right}")
    both.to_stream().to("out", Produced.with_(None, TEXT))
    return builder.build()


def last_rows(topology: FrozenTopology, windows: Any, *batches: list[tuple[str, str, int]]) -> dict[Windowed, Any]:
    keys = SessionWindowedSerde(TEXT) if isinstance(windows, SessionWindows) else TimeWindowedSerde(TEXT, 10)
    with TopologyTestDriver(topology) as driver:
        topics = {name: driver.create_input_topic(name, TEXT, TEXT) for name in ("l", "r")}
        for batch in batches:
            driver.pipe_batch([(topics[topic], TestRecord(key, "x", time)) for topic, key, time in batch])
        return driver.create_output_topic("out", keys, TEXT).read_key_values_to_map()


@pytest.mark.parametrize("name", WINDOWS)
def test_caching_and_batches_change_nothing_about_the_last_row_of_each_window(name: str) -> None:
    windows = WINDOWS[name]
    ordered = sorted(INPUT, key=lambda record: record[2])
    expected = last_rows(joined(windows, cached=False), windows, *([record] for record in ordered))
    assert any(value is not None and "None" not in value for value in expected.values())
    for cut in range(len(ordered)):
        parts = [part for part in (ordered[:cut], ordered[cut:]) if part]
        assert last_rows(joined(windows, cached=True), windows, *parts) == expected


def test_a_plain_key_is_not_looked_for_among_windows() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("l", Consumed.with_(TEXT, TEXT))
    grouped = builder.stream("r", Consumed.with_(TEXT, TEXT)).group_by_key(Grouped.with_(TEXT, TEXT))
    counts = grouped.windowed_by(WINDOWS["time"]).count(Materialized.as_("counts"))
    stream.join(counts, lambda value, count: count).to("out", Produced.with_(TEXT, LongSerde()))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("l", TEXT, TEXT)
        with pytest.raises(ProcessingError, match="Store counts holds windows, and is asked for the key 'a'"):
            topic.pipe_input("a", "x", 1)
