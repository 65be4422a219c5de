"""Event time, driven through whole topologies: record by record, and in batches of objects and of columns."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from millrace.dsl import (
    Consumed,
    ConsumerRecord,
    ExtractRecordMetadataTimestamp,
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    Materialized,
    Produced,
    StreamsBuilder,
    UsePartitionTimeOnInvalidTimestamp,
    WallclockTimestampExtractor,
    field_timestamp,
)
from millrace.errors import ConfigurationError, ProcessingError, TopologyError
from millrace.metrics import DropReason
from millrace.serdes import JsonSerde, LongSerde, StringSerde
from millrace.testing import TestRecord, TopologyTestDriver
from millrace.topology.timestamp_extractors import TimestampExtractor, Timestamps, timestamp_extractor_by_name

TEXT = StringSerde()
UNTYPED = JsonSerde()
TYPED = JsonSerde(pa.schema([("at", pa.int64()), ("n", pa.int64())]))
DROPPED: None = None


class Case:
    """Pipes records in one of the forms and says which times they come out with."""

    def __init__(self, name: str, value_serde: JsonSerde, *, in_batch: bool) -> None:
        self.name = name
        self.value_serde = value_serde
        self.in_batch = in_batch

    def times(
        self,
        extractor: TimestampExtractor | None,
        records: list[tuple[Any, int]],
        settings: dict[str, Any] | None = None,
    ) -> list[int | None]:
        """Event time of each record; ``None`` of those that were dropped."""
        consumed = Consumed.with_(TEXT, self.value_serde)
        builder = StreamsBuilder()
        stream = builder.stream("in", consumed if extractor is None else consumed.with_timestamp_extractor(extractor))
        stream.to("out", Produced.with_(TEXT, self.value_serde))
        with TopologyTestDriver(builder.build(), settings) as driver:
            topic = driver.create_input_topic("in", TEXT, UNTYPED)
            piped = [TestRecord(str(index), value, time) for index, (value, time) in enumerate(records)]
            (topic.pipe_batch if self.in_batch else topic.pipe_records)(piped)
            found = driver.create_output_topic("out", TEXT, UNTYPED).read_records()
            times = {record.key: record.timestamp for record in found}
            assert driver.dropped.get(DropReason.NEGATIVE_TIMESTAMP, 0) == len(records) - len(found)
            return [times.get(str(index)) for index in range(len(records))]


CASES = [
    Case("record by record", UNTYPED, in_batch=False),
    Case("objects in a batch", UNTYPED, in_batch=True),
    Case("columns in a batch", TYPED, in_batch=True),
]


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    chosen: Case = request.param
    return chosen


def at(*times: int | None) -> list[tuple[Any, int]]:
    """Records whose field ``at`` holds the times; their own timestamps are all 7."""
    return [({"at": time, "n": 1}, 7) for time in times]


def stamped(*times: int) -> list[tuple[Any, int]]:
    """Records with these timestamps of their own."""
    return [({"at": 0, "n": 1}, time) for time in times]


def test_without_an_extractor_the_record_s_own_timestamp_counts(case: Case) -> None:
    assert case.times(None, stamped(5, 0, 9)) == [5, 0, 9]


def test_without_an_extractor_a_negative_timestamp_stops_the_application(case: Case) -> None:
    with pytest.raises(
        ProcessingError, match=r"in-0 offset 1.*invalid \(negative\): -1.*Remedy: use another"
    ) as caught:
        case.times(None, stamped(5, -1, 9))
    assert "default.timestamp.extractor" in caught.value.remedy


def test_failing_on_an_invalid_timestamp_asks_no_handler(case: Case) -> None:
    settings = {"processing.exception.handler": "continue", "deserialization.exception.handler": "continue"}
    with pytest.raises(ProcessingError):
        case.times(FailOnInvalidTimestamp(), stamped(-1), settings)


def test_what_an_extractor_raises_stops_the_application_whatever_the_handlers_say(case: Case) -> None:
    def fail(key: Any, value: Any, timestamp: int, partition_time: int) -> int:
        raise KeyError("at")

    with pytest.raises(ProcessingError, match=r"extractor failed at the record at in-0 offset 0: KeyError: 'at'"):
        case.times(fail, stamped(1), {"processing.exception.handler": "continue"})


def test_skipping_drops_and_counts_negative_timestamps_only(case: Case) -> None:
    assert case.times(LogAndSkipOnInvalidTimestamp(), stamped(5, -1, 0, -7, 9)) == [5, DROPPED, 0, DROPPED, 9]


def test_the_partition_time_stands_in_for_a_negative_timestamp(case: Case) -> None:
    extractor = UsePartitionTimeOnInvalidTimestamp()
    assert case.times(extractor, stamped(5, -1, 9, 3, -1, -2, 10, -1)) == [5, 5, 9, 3, 9, 9, 10, 10]


def test_without_a_partition_time_a_negative_timestamp_stops_the_application(case: Case) -> None:
    with pytest.raises(ProcessingError, match="no record before it had a valid one"):
        case.times(UsePartitionTimeOnInvalidTimestamp(), stamped(-1, 5))


def test_a_policy_of_one_s_own_sees_what_its_earlier_answers_made_of_the_partition_time(case: Case) -> None:
    class OneMore(ExtractRecordMetadataTimestamp):
        def on_invalid_timestamp(self, key: Any, value: Any, timestamp: int, partition_time: int) -> int:
            assert value["n"] == 1
            return partition_time + 1

    assert case.times(OneMore(), stamped(-1, -1, 5, -1, -1)) == [0, 1, 5, 6, 7]


def test_an_extractor_of_two_arguments_sees_where_the_record_is_and_its_headers(case: Case) -> None:
    seen: list[tuple[Any, ...]] = []

    def extract(record: ConsumerRecord, partition_time: int) -> int:
        seen.append((record.topic, record.partition, record.offset, record.timestamp, record.key, partition_time))
        assert record.headers == []
        return int(record.value["at"]) + 1

    assert case.times(extract, at(5, 3)) == [6, 4]
    assert seen == [("in", 0, 0, 7, "0", -1), ("in", 0, 1, 7, "1", 6)]


def test_headers_of_the_record_may_say_its_time() -> None:
    builder = StreamsBuilder()
    consumed = Consumed.with_(TEXT, TEXT).with_timestamp_extractor(lambda record, _time: int(record.headers[0][1]))
    builder.stream("in", consumed).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("k", "v", 3, headers=[("at", b"44")])
        assert driver.create_output_topic("out", TEXT, TEXT).read_record().timestamp == 44


def test_a_policy_of_one_s_own_may_see_the_whole_record(case: Case) -> None:
    class Offset(ExtractRecordMetadataTimestamp):
        def on_invalid_timestamp(self, record: ConsumerRecord, timestamp: int, partition_time: int) -> int:  # type: ignore[override]
            assert timestamp == record.timestamp
            return 1000 + record.offset

    assert case.times(Offset(), stamped(-1, 5, -4)) == [1000, 5, 1002]


def test_extractors_of_another_number_of_arguments_are_refused_by_the_names_they_may_have() -> None:
    wrong: Any = lambda key, value, timestamp: 0  # noqa: E731
    with pytest.raises(TopologyError, match=r"neither \(record, partition_time\) nor \(key, value, timestamp, "):
        Consumed().with_timestamp_extractor(wrong)
    with pytest.raises(ConfigurationError, match=r"can be called with neither"):
        timestamp_extractor_by_name("operator:not_")


def test_the_wall_clock_replaces_every_timestamp(case: Case) -> None:
    assert case.times(WallclockTimestampExtractor(clock=lambda: 1234), stamped(5, -1, 9)) == [1234] * 3


def test_the_wall_clock_counts_milliseconds_since_1970() -> None:
    before = datetime.now(UTC).timestamp() * 1000
    assert before - 1 <= WallclockTimestampExtractor()(None, None, -1, -1) <= before + 60_000


def test_the_setting_names_the_extractor_of_sources_without_one(case: Case) -> None:
    for name in ("LogAndSkipOnInvalidTimestamp", "org.apache.kafka.streams.processor.LogAndSkipOnInvalidTimestamp"):
        assert case.times(None, stamped(-1, 4), {"default.timestamp.extractor": name}) == [DROPPED, 4]
    own = {"default.timestamp.extractor": f"{__name__}:twice"}
    assert case.times(None, stamped(2, 4), own) == [4, 8]
    assert case.times(FailOnInvalidTimestamp(), stamped(2, 4), own) == [2, 4]


def twice(key: Any, value: Any, timestamp: int, partition_time: int) -> int:
    return timestamp * 2


NOT_CALLABLE = 5


def test_the_setting_may_name_a_function_or_a_class() -> None:
    function: Any = timestamp_extractor_by_name(f"{__name__}:twice")
    assert function(None, None, 3, -1) == 6
    found = timestamp_extractor_by_name("millrace.topology.timestamp_extractors:LogAndSkipOnInvalidTimestamp")
    assert found == LogAndSkipOnInvalidTimestamp()


@pytest.mark.parametrize("name", ["no.such:thing", f"{__name__}:no_such", f"{__name__}:NOT_CALLABLE", "NoSuch"])
def test_a_setting_that_names_no_extractor_is_refused_with_those_that_there_are(name: str) -> None:
    with pytest.raises(ConfigurationError, match="LogAndSkipOnInvalidTimestamp"):
        TopologyTestDriver(_doubling(), {"default.timestamp.extractor": name})


def _doubling() -> Any:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, LongSerde())).to("out")
    return builder.build()


def test_repartition_topics_keep_their_timestamps_whatever_the_setting_says(case: Case) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, case.value_serde))
    stream.repartition().to("out", Produced.with_(TEXT, case.value_serde))
    with TopologyTestDriver(builder.build(), {"default.timestamp.extractor": f"{__name__}:twice"}) as driver:
        driver.create_input_topic("in", TEXT, UNTYPED).pipe_input("k", {"at": 1, "n": 1}, 3)
        assert driver.create_output_topic("out", TEXT, UNTYPED).read_records()[0].timestamp == 6


def test_a_field_is_the_event_time(case: Case) -> None:
    assert case.times(field_timestamp("at"), at(5, 0, 9)) == [5, 0, 9]


@pytest.mark.parametrize(("unit", "expected"), [("s", 2_500_000), ("ms", 2_500), ("us", 2), ("ns", 0)])
def test_a_field_s_unit_is_cut_down_to_milliseconds(case: Case, unit: str, expected: int) -> None:
    assert case.times(field_timestamp("at", unit=unit), at(2_500)) == [expected]


def test_a_field_that_is_missing_null_negative_or_too_large_is_invalid(case: Case) -> None:
    records = [*at(5, None, -1), ({"n": 1}, 7), *at(6)]
    for unit, scale in (("ms", 1), ("s", 1000)):
        skip = field_timestamp("at", unit=unit, on_invalid=LogAndSkipOnInvalidTimestamp())
        assert case.times(skip, records) == [5 * scale, DROPPED, DROPPED, DROPPED, 6 * scale]
    seconds = field_timestamp("at", unit="s", on_invalid=UsePartitionTimeOnInvalidTimestamp())
    limit = (2**63 - 1) // 1000
    assert case.times(seconds, at(1, limit + 1, -limit - 2, -(2**63), limit)) == [1000, 1000, 1000, 1000, limit * 1000]
    with pytest.raises(ProcessingError, match=r"offset 1: field at: the timestamp is invalid"):
        case.times(field_timestamp("at"), records)


def test_a_null_value_has_no_field(case: Case) -> None:
    extractor = field_timestamp("at", on_invalid=UsePartitionTimeOnInvalidTimestamp())
    assert case.times(extractor, [*at(5), (None, 7), *at(9)]) == [5, 5, 9]


_NUMBERS = [0, 1, 127, None, 42]
_TIMES = [0, 1, None, -1, -1001, 1_700_000_123]
_TIME_COLUMNS = [
    pa.array(_TIMES, pa.int64()).cast(pa.timestamp(unit, tz=zone))
    for unit in ("s", "ms", "us", "ns")
    for zone in (None, "UTC", "Europe/Vienna")
]
_NO_TIMES = [pa.array(["5", None]), pa.array([True, None]), pa.array([5, None], pa.date32())]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize(
    "column",
    [
        *[pa.array(_NUMBERS, kind) for kind in (pa.int8(), pa.int32(), pa.uint32())],
        pa.array([*_TIMES, 2**63 - 1, -(2**63)], pa.int64()),
        *[
            pa.array([0.0, 0.5, 1 / 7, -0.5, math.nan, math.inf, 3e38, 1_700_000_000.1234, None], kind)
            for kind in (pa.float32(), pa.float64())
        ],
        pa.array([Decimal("1.5"), Decimal("1700000000.1234"), None], pa.decimal128(20, 4)),
        *_TIME_COLUMNS,
        *_NO_TIMES,
    ],
    ids=lambda column: str(column.type) if isinstance(column, pa.Array) else column,
)
def test_columns_and_single_values_have_the_same_times(column: pa.Array, unit: str) -> None:
    rows = pa.StructArray.from_arrays([column], names=["at"])
    extractor = field_timestamp("at", unit=unit, on_invalid=LogAndSkipOnInvalidTimestamp())
    timestamps: Timestamps = np.zeros(len(rows), dtype=np.int64)
    single = [extractor(None, row, 0, -1) for row in rows.to_pylist()]
    in_columns = extractor.extract_column(rows, timestamps)
    assert in_columns is not None
    assert in_columns.tolist() == single
    assert (max(single) < 0) == any(column is other for other in _NO_TIMES)


def test_integers_that_arrow_s_signed_type_does_not_hold_are_read_one_by_one() -> None:
    rows = pa.StructArray.from_arrays([pa.array([5], pa.uint64())], names=["at"])
    assert field_timestamp("at").extract_column(rows, np.zeros(1, dtype=np.int64)) is None


def test_a_nested_field_is_named_by_its_way() -> None:
    extractor = field_timestamp("meta", "at", on_invalid=LogAndSkipOnInvalidTimestamp())
    rows = [{"meta": {"at": 5}}, {"meta": None}, None, {"meta": {"at": 6}}]
    column = pa.array(rows)
    found = extractor.extract_column(column, np.zeros(4, dtype=np.int64))
    assert found is not None
    assert found.tolist() == [extractor(None, row, 0, -1) for row in rows] == [5, -1, -1, 6]
    for path in (("no", "such"), ("meta", "at", "deeper")):
        nothing = field_timestamp(*path).extract_column(column, np.zeros(4, dtype=np.int64))
        assert nothing is not None
        assert nothing.tolist() == [-1] * 4


def test_a_python_datetime_is_taken_and_utc_without_a_zone() -> None:
    extractor = field_timestamp("at")
    assert extractor(None, {"at": datetime(1970, 1, 1, 0, 0, 1, 999)}, 0, -1) == 1000  # noqa: DTZ001
    assert extractor(None, {"at": datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)}, 0, -1) == 2000


def test_in_columns_the_field_is_read_without_a_call_for_each_record(monkeypatch: pytest.MonkeyPatch) -> None:
    extractor = field_timestamp("at", on_invalid=UsePartitionTimeOnInvalidTimestamp())

    def refuse(*_: Any) -> int:
        raise AssertionError("called for a record")

    monkeypatch.setattr(type(extractor), "__call__", refuse)
    case = Case("columns", TYPED, in_batch=True)
    assert case.times(extractor, at(5, None, 9)) == [5, 5, 9]


@pytest.mark.parametrize(
    ("path", "options"),
    [((), {}), (("",), {}), ((5,), {}), (("at",), {"unit": "m"}), (("at",), {"on_invalid": lambda *_: 1})],
)
def test_a_field_timestamp_that_makes_no_sense_is_refused(path: Any, options: Any) -> None:
    with pytest.raises(TopologyError):
        field_timestamp(*path, **options)


def test_sources_with_equal_extractors_can_be_merged() -> None:
    builder = StreamsBuilder()
    for _ in range(2):
        builder.stream("in", Consumed.with_(TEXT, UNTYPED).with_timestamp_extractor(field_timestamp("at"))).to("out")
    assert len(builder.build().sub_topologies) == 1


@pytest.mark.parametrize("value_serde", [UNTYPED, TYPED], ids=["objects", "columns"])
def test_inputs_take_turns_by_event_time_within_a_batch(value_serde: JsonSerde) -> None:
    consumed = Consumed.with_(TEXT, value_serde).with_timestamp_extractor(field_timestamp("at"))
    builder = StreamsBuilder()
    table = builder.table("table", consumed, Materialized.as_("store"))
    joined = builder.stream("in", consumed).left_join(table, lambda left, right: [left["n"], right and right["n"]])
    joined.to("out", Produced.with_(TEXT, UNTYPED))
    with TopologyTestDriver(builder.build()) as driver:
        stream = driver.create_input_topic("in", TEXT, UNTYPED)
        changes = driver.create_input_topic("table", TEXT, UNTYPED)
        driver.pipe_batch(
            [
                # By the records' own timestamps all changes would come first.
                *[(stream, TestRecord("k", {"at": time, "n": time}, 100)) for time in (5, 15, 25)],
                *[(changes, TestRecord("k", {"at": time, "n": time}, 1)) for time in (10, 20)],
            ]
        )
        found = driver.create_output_topic("out", TEXT, UNTYPED).read_records()
        assert [record.value for record in found] == [[5, None], [15, 10], [25, 20]]
        assert [record.timestamp for record in found] == [5, 15, 25]


def test_when_inputs_take_turns_unreadable_and_untimely_records_are_reported_once() -> None:
    extractor = field_timestamp("at", on_invalid=LogAndSkipOnInvalidTimestamp())
    consumed = Consumed.with_(TEXT, UNTYPED).with_timestamp_extractor(extractor)
    builder = StreamsBuilder()
    builder.stream("a", consumed).merge(builder.stream("b", consumed)).to("out", Produced.with_(TEXT, UNTYPED))
    settings = {
        "deserialization.exception.handler": "continue",
        "errors.dead.letter.queue.topic.name": "dead",
    }
    with TopologyTestDriver(builder.build(), settings) as driver:
        first = driver.create_input_topic("a", TEXT, TEXT)
        second = driver.create_input_topic("b", TEXT, TEXT)
        driver.pipe_batch(
            [
                (first, TestRecord("1", '{"at":30}', 0)),
                (first, TestRecord("2", "{not json", 0)),
                (first, TestRecord("3", '{"at":40}', 0)),
                (second, TestRecord("4", '{"at":10}', 50)),
                (second, TestRecord("5", "{}", 50)),
                (second, TestRecord("6", '{"at":35}', 50)),
            ]
        )
        found = driver.create_output_topic("out", TEXT, UNTYPED).read_records()
        assert [(record.key, record.timestamp) for record in found] == [("4", 10), ("1", 30), ("6", 35), ("3", 40)]
        assert driver.dropped == {DropReason.DESERIALIZATION: 1, DropReason.NEGATIVE_TIMESTAMP: 1}
        dead = driver.create_output_topic("dead", TEXT, TEXT).read_records()
        assert sorted(str(record.key) for record in dead) == ["2", "5"]
