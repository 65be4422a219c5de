"""Windows of a record, against those that the engine counts it in."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.dsl import Consumed, Grouped, Materialized, StreamsBuilder, TimeWindows
from millrace.errors import TopologyError
from millrace.serdes import LongSerde, StringSerde
from millrace.sizing import TimeWindow, calculate_hopping_window, calculate_tumbling_window, live_windows
from millrace.state import TaskPosition, TaskState
from millrace.testing import TopologyTestDriver
from tests.unit.state.specs import window

TEXT = StringSerde()
LONG = LongSerde()


def engine(windows: TimeWindows) -> TopologyTestDriver:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, LONG)).group_by_key(Grouped.with_(TEXT, LONG))
    stream.windowed_by(windows).count(Materialized.as_("counts").with_key_serde(TEXT).with_retention(10**9))
    return TopologyTestDriver(builder.build())


def windows_of_engine(timestamp: int, size: int, advance: int) -> tuple[TimeWindow, ...]:
    with engine(TimeWindows.of_size_with_no_grace(size).advance_by(advance)) as driver:
        driver.create_input_topic("in", TEXT, LONG).pipe_input("k", 1, timestamp)
        return tuple(sorted(TimeWindow(at.start, at.end) for at in driver.window_store("counts").all()))


@pytest.mark.parametrize(("timestamp", "starts"), [(3, [0]), (7, [0, 4]), (9, [0, 4, 8]), (10, [4, 8])], ids=str)
def test_a_hopping_window_does_not_start_before_the_epoch(timestamp: int, starts: list[int]) -> None:
    """Case W01."""
    assert calculate_hopping_window(timestamp, 10, 4) == tuple(TimeWindow(start, start + 10) for start in starts)


def test_no_window_gets_more_records_than_fit_into_it() -> None:
    """Case W02."""
    found = [window for time in range(0, 30_000, 2_000) for window in calculate_hopping_window(time, 10_000, 5_000)]
    counts = {window.start: found.count(window) for window in found}
    assert counts == {0: 5, 5_000: 5, 10_000: 5, 15_000: 5, 20_000: 5, 25_000: 2}


@pytest.mark.parametrize("timestamp", [0, 1, 59_999, 60_000, 123_456_789, 1_700_000_000_123])
@pytest.mark.parametrize(("size", "advance"), [(60_000, 60_000), (60_000, 20_000), (60_000, 45_000), (7, 3)])
def test_the_engine_counts_a_record_in_the_same_windows(timestamp: int, size: int, advance: int) -> None:
    assert calculate_hopping_window(timestamp, size, advance) == windows_of_engine(timestamp, size, advance)


def test_a_tumbling_window_includes_its_start_and_excludes_its_end() -> None:
    assert calculate_tumbling_window(59_999, timedelta(minutes=1)) == TimeWindow(0, 60_000)
    assert calculate_tumbling_window(60_000, timedelta(minutes=1)) == TimeWindow(60_000, 120_000)
    assert windows_of_engine(60_000, 60_000, 60_000) == (TimeWindow(60_000, 120_000),)


@given(timestamp=st.integers(0, 10**13), size=st.integers(1, 10**6), data=st.data())
def test_each_window_holds_the_record_and_no_neighbour_does(timestamp: int, size: int, data: st.DataObject) -> None:
    advance = data.draw(st.integers(max(1, size // 50), size))
    windows = calculate_hopping_window(timestamp, size, advance)
    assert all(window.start <= timestamp < window.end for window in windows)
    assert all(window.start % advance == 0 for window in windows)
    before, after = windows[0].start - advance, windows[-1].start + advance
    assert before < 0 or before + size <= timestamp
    assert after > timestamp


@pytest.mark.parametrize(
    ("timestamp", "size", "advance", "message"),
    [
        (-1, 10, 10, "timestamp must be 0 ms or more"),
        (5, 0, 0, "window size must be above 0"),
        (5, 10, 11, "advance must be above 0 and at most the window size"),
        (5, 10, 0, "advance must be above 0 and at most the window size"),
        (5, timedelta(microseconds=1), 1, "not a whole number of milliseconds"),
        (1.5, 10, 10, "timestamp must be 0 ms or more"),
    ],
)
def test_senseless_windows_are_refused(timestamp: int, size: int, advance: int, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        calculate_hopping_window(timestamp, size, advance)


@pytest.mark.parametrize(("advance", "retention"), [(60_000, 120_000), (15_000, 600_000), (1_000, 10_000)])
def test_a_store_never_holds_more_windows_of_a_key_than_estimated(advance: int, retention: int) -> None:
    state = TaskState.open(None, [window("win", retention_ms=retention)])
    most = 0
    for start in range(0, 5 * (retention + 60_000), advance):
        state.window_store("win").put_many([b"k"], np.array([start]), [b"1"], np.array([start]))
        state.drain_changelog()
        state.commit(TaskPosition())
        most = max(most, state.sizes()["win"][0])
    assert most == live_windows(retention, advance)


def test_windows_without_retention_cannot_be_counted() -> None:
    with pytest.raises(TopologyError, match="Retention and advance must be above 0 ms"):
        live_windows(0, 10)
