"""What real users met, with the right results: driven through whole topologies."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from millrace.dsl import Consumed, Grouped, KStream, KTable, Materialized, Produced, StreamsBuilder, TimeWindows
from millrace.dsl.aggregators import count as counting
from millrace.metrics import DropReason
from millrace.serdes import JsonSerde, LongSerde, StringSerde, TimeWindowedSerde, Windowed
from millrace.testing import TestRecord, TopologyTestDriver
from millrace.topology.topology import FrozenTopology

TEXT = StringSerde()
LONG = LongSerde()
JSON = JsonSerde()
STORE = Materialized.as_("store").with_key_serde(TEXT)
Records = list[TestRecord]


def build(define: Callable[[KStream], None], *, consumed: Consumed | None = None) -> FrozenTopology:
    builder = StreamsBuilder()
    define(builder.stream("in", consumed or Consumed.with_(TEXT, LONG)))
    return builder.build()


def windowed_count(windows: TimeWindows, *, consumed: Consumed | None = None) -> FrozenTopology:
    def define(stream: KStream) -> None:
        options = consumed or Consumed.with_(TEXT, LONG)
        grouped = stream.group_by_key(Grouped.with_(TEXT, options.value_serde)).windowed_by(windows)
        table = grouped.count(STORE.with_retention(10**9))
        table.to_stream().to("out", Produced.with_(TimeWindowedSerde(TEXT, windows.size_ms), LONG))

    return build(define, consumed=consumed)


def counted(driver: TopologyTestDriver, key: str = "k") -> dict[tuple[int, int], int]:
    return {(at.start, at.end): n for at, n in driver.window_store("store").all().items() if at.key == key}


def at(*timestamps: int, key: str | None = "k") -> Records:
    return [TestRecord(key, 1, timestamp) for timestamp in timestamps]


@pytest.fixture(params=["record by record", "in one batch"])
def pipe(request: pytest.FixtureRequest) -> Callable[[TopologyTestDriver, Records], None]:
    def run(driver: TopologyTestDriver, records: Records) -> None:
        topic = driver.create_input_topic("in", TEXT, LONG)
        if request.param == "in one batch":
            topic.pipe_batch(records)
        else:
            topic.pipe_records(records)

    return run


Pipe = Callable[[TopologyTestDriver, Records], None]


def test_a_hopping_window_does_not_start_before_the_epoch(pipe: Pipe) -> None:
    """Case W01."""
    windows = TimeWindows.of_size_and_grace(10, 100).advance_by(4)
    with TopologyTestDriver(windowed_count(windows)) as driver:
        pipe(driver, at(3, 7, 9, 10))
        assert counted(driver) == {(0, 10): 3, (4, 14): 3, (8, 18): 2}
    assert [list(windows.starts_of(time)) for time in (3, 7, 9, 10)] == [[0], [0, 4], [0, 4, 8], [4, 8]]


def test_a_hopping_count_never_exceeds_what_fits_into_the_window() -> None:
    """Case W02."""
    windows = TimeWindows.of_size_with_no_grace(10_000).advance_by(5_000)
    with TopologyTestDriver(windowed_count(windows)) as driver:
        driver.create_input_topic("in", TEXT, LONG).pipe_records(at(*range(0, 30_000, 2_000)))
        starts = range(0, 25_001, 5_000)
        assert counted(driver) == {(start, start + 10_000): 2 if start == 25_000 else 5 for start in starts}
        updates = driver.create_output_topic("out", TimeWindowedSerde(TEXT, 10_000), LONG).read_key_values()
        assert max(value for _, value in updates) == 5


def test_a_tumbling_window_closes_when_stream_time_reaches_its_end_and_grace() -> None:
    """Case W04."""
    with TopologyTestDriver(windowed_count(TimeWindows.of_size_and_grace(10, 5))) as driver:
        topic = driver.create_input_topic("in", TEXT, LONG)
        for key, time in (("k", 0), ("other", 14), ("k", 3), ("other", 15), ("k", 4)):
            topic.pipe_input(key, 1, time)
        updates = driver.create_output_topic("out", TimeWindowedSerde(TEXT, 10), LONG).read_key_values()
        assert updates == [
            (Windowed("k", 0, 10), 1),
            (Windowed("other", 10, 20), 1),
            (Windowed("k", 0, 10), 2),
            (Windowed("other", 10, 20), 2),
        ]
        assert driver.dropped == {DropReason.LATE: 1}


def test_the_boundary_of_lateness_holds_inside_a_batch() -> None:
    """Case W04."""
    with TopologyTestDriver(windowed_count(TimeWindows.of_size_and_grace(10, 5))) as driver:
        rows = [("k", 0), ("other", 14), ("k", 3), ("other", 15), ("k", 4)]
        driver.create_input_topic("in", TEXT, LONG).pipe_batch([TestRecord(key, 1, time) for key, time in rows])
        assert counted(driver) == {(0, 10): 2}
        assert counted(driver, "other") == {(10, 20): 2}
        assert driver.dropped == {DropReason.LATE: 1}


def test_lateness_is_the_distance_to_stream_time_and_never_negative(pipe: Pipe) -> None:
    """Case W05: lateness is stream time less the record's timestamp, in milliseconds."""
    with TopologyTestDriver(windowed_count(TimeWindows.of_size_and_grace(10, 2))) as driver:
        pipe(driver, [*at(13, key="other"), *at(9)])
        assert driver.dropped == {DropReason.LATE: 1}
        assert driver.lateness == [0, 4]


def test_windows_of_a_day_begin_at_midnight_utc() -> None:
    """Case W15: aligned to the epoch, as the window module says; local days need shifted timestamps."""
    windows = TimeWindows.of_size_and_grace(86_400_000, 172_800_000)
    with TopologyTestDriver(windowed_count(windows)) as driver:
        times = (1_533_767_400_000, 1_533_851_940_000, 1_533_852_000_000)
        driver.create_input_topic("in", TEXT, LONG).pipe_records(at(*times))
        assert counted(driver) == {
            (1_533_686_400_000, 1_533_772_800_000): 1,
            (1_533_772_800_000, 1_533_859_200_000): 2,
        }
    from millrace.topology import windows as documented

    assert "aligned to the epoch in UTC" in str(documented.__doc__)


@pytest.mark.parametrize(
    ("advance", "starts"),
    [(700, (1_709_315_511_400, 1_709_315_512_100)), (800, (1_709_315_511_200, 1_709_315_512_000))],
)
def test_an_advance_need_not_divide_the_size(advance: int, starts: tuple[int, ...]) -> None:
    """Case W17."""
    windows = TimeWindows.of_size_with_no_grace(1600).advance_by(advance)
    with TopologyTestDriver(windowed_count(windows)) as driver:
        driver.create_input_topic("in", TEXT, LONG).pipe_records(at(1_709_315_512_577, key="gateway1"))
        assert counted(driver, "gateway1") == {(start, start + 1600): 1 for start in starts}
        assert not driver.dropped


@pytest.mark.parametrize("in_batch", [False, True], ids=["record by record", "in one batch"])
def test_an_extracted_time_before_1970_drops_the_record(in_batch: bool) -> None:
    """Case W22."""

    def extract(key: Any, value: Any, timestamp: int, partition_time: int) -> int:
        return int(datetime.fromisoformat(value["event_time"]).timestamp() * 1000)

    consumed = Consumed.with_(TEXT, JSON).with_timestamp_extractor(extract)
    topology = windowed_count(TimeWindows.of_size_with_no_grace(10_000), consumed=consumed)
    settings = {"errors.dead.letter.queue.topic.name": "dead"}
    with TopologyTestDriver(topology, settings) as driver:
        topic = driver.create_input_topic("in", TEXT, JSON)
        times = ("1969-12-31T23:59:52+00:00", "1970-01-01T00:00:02+00:00")
        records = [TestRecord("k", {"event_time": time}, 5) for time in times]
        (topic.pipe_batch if in_batch else topic.pipe_records)(records)
        assert counted(driver) == {(0, 10_000): 1}
        assert driver.dropped == {DropReason.NEGATIVE_TIMESTAMP: 1}
        assert driver.committed_offset("in") == 2
        dead = driver.create_output_topic("dead", TEXT, JSON).read_records()
        assert [record.value for record in dead] == [{"event_time": times[0]}]


def test_a_null_value_deletes_in_a_table_and_is_ignored_by_a_reduction(pipe: Pipe) -> None:
    """Case T04."""
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, LONG))
    stream.to_table(Materialized.as_("table").with_key_serde(TEXT).with_value_serde(LONG))
    grouped = stream.group_by_key(Grouped.with_(TEXT, LONG))
    grouped.reduce(lambda old, new: new, Materialized.as_("reduced").with_value_serde(LONG))
    with TopologyTestDriver(builder.build()) as driver:
        pipe(driver, [TestRecord("k", 1, 0), TestRecord("k", None, 1), TestRecord("j", 7, 2)])
        assert driver.key_value_store("table").all() == {"j": 7}
        assert driver.key_value_store("reduced").all() == {"k": 1, "j": 7}
        assert driver.dropped == {DropReason.NULL_VALUE: 1}
        last = {raw.key: raw.value for raw in driver.changelogs["topology-test-driver-table-changelog"]}
        assert last[b"k"] is None


def test_null_keys_are_dropped_counted_and_committed(pipe: Pipe) -> None:
    """Case T05."""

    def define(stream: KStream) -> None:
        stream.group_by_key(Grouped.with_(TEXT, LONG)).count(STORE)

    with TopologyTestDriver(build(define)) as driver:
        pipe(driver, [TestRecord(None, 1, 1), TestRecord("k", 1, 2), TestRecord(None, 1, 3), TestRecord("", 1, 4)])
        assert driver.key_value_store("store").all() == {"": 1, "k": 1}
        assert driver.dropped == {DropReason.NULL_KEY: 2}
        assert driver.committed_offset("in") == 4


def test_the_same_input_gives_the_same_result_however_it_is_cut() -> None:
    """Case W23, with the windows of this slice."""
    records = [TestRecord("x", value, 1_711_331_276_394) for value in range(10)]
    results = set()
    for size in [1, 10, 3] * 4:

        def define(stream: KStream) -> None:
            grouped = stream.group_by_key(Grouped.with_(TEXT, LONG))
            windowed = grouped.windowed_by(TimeWindows.of_size_with_no_grace(10_000))
            windowed.aggregate(list, lambda key, value, old: [*old, value], STORE.with_value_serde(JSON))

        with TopologyTestDriver(build(define)) as driver:
            topic = driver.create_input_topic("in", TEXT, LONG)
            for start in range(0, 10, size):
                topic.pipe_batch(records[start : start + size])
            results.add(repr(driver.window_store("store").all()))
    assert results == {repr({Windowed("x", 1_711_331_270_000, 1_711_331_280_000): list(range(10))})}


def test_a_table_is_seen_as_it_was_at_the_record_s_place_in_a_batch() -> None:
    builder = StreamsBuilder()
    table: KTable = builder.table("table", Consumed.with_(TEXT, LONG), Materialized.as_("store"))
    clicks = builder.stream("in", Consumed.with_(TEXT, LONG))
    clicks.left_join(table, lambda click, row: [click, row]).to("out", Produced.with_(TEXT, JSON))
    with TopologyTestDriver(builder.build()) as driver:
        stream = driver.create_input_topic("in", TEXT, LONG)
        changes = driver.create_input_topic("table", TEXT, LONG)
        driver.pipe_batch(
            [
                (stream, TestRecord("a", 1, 0)),
                (stream, TestRecord("a", 2, 20)),
                (stream, TestRecord("a", 3, 40)),
                (changes, TestRecord("a", 10, 10)),
                (changes, TestRecord("a", 20, 15)),
                (changes, TestRecord("a", None, 30)),
            ]
        )
        joined = driver.create_output_topic("out", TEXT, JSON).read_records()
        assert [record.value for record in joined] == [[1, None], [2, 20], [3, None]]
        assert driver.key_value_store("store").all() == {}


def test_built_in_counts_agree_with_count() -> None:
    def define(stream: KStream) -> None:
        grouped = stream.group_by_key(Grouped.with_(TEXT, LONG))
        grouped.count(STORE)
        grouped.aggregate(counting(), None, Materialized.as_("other").with_key_serde(TEXT))

    with TopologyTestDriver(build(define)) as driver:
        driver.create_input_topic("in", TEXT, LONG).pipe_batch(at(1, 2, 3))
        assert driver.key_value_store("store").all() == driver.key_value_store("other").all() == {"k": 3}
