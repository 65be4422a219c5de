"""Case P09: dates and times that Python's ``datetime`` does not hold are read, and written as the same bytes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from millrace.dsl import Consumed, Grouped, KStream, Materialized, Produced, StreamsBuilder, field_timestamp
from millrace.dsl import aggregators as agg
from millrace.errors import ProcessingError, SerializationError
from millrace.serdes import AvroSerde, BeyondDatetime, BytesSerde, StringSerde
from millrace.serdes.times import python_values
from millrace.testing import TestRecord, TopologyTestDriver
from tests.unit.serdes.avro_encodings import bytes_bytes, long_bytes

LONGS = ["timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros", "time-micros"]
EXTREMES = [-(2**63), -62135769600000, -1, 0, 253402300800000, 86_400_000_000, 2**63 - 1]
BEFORE_THE_EPOCH = datetime(1969, 12, 31, 23, 59, 59, 999_000)  # noqa: DTZ001


def typed(kind: str, logical: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical, **more}


def record(*types: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": f"f{n}", "type": each} for n, each in enumerate(types)]}


@pytest.mark.parametrize(
    ("kind", "logical", "numbers"),
    [
        *(("long", logical, EXTREMES) for logical in [*LONGS, "timestamp-nanos", "local-timestamp-nanos"]),
        *(("int", logical, [-(2**31), -1, 0, 86_400_000, 2**31 - 1]) for logical in ("date", "time-millis")),
    ],
)
def test_every_number_comes_back_as_the_same_bytes_alone_and_in_columns(
    kind: str, logical: str, numbers: list[int]
) -> None:
    time_type = typed(kind, logical)
    for schema, begin, end in (
        (time_type, b"", b""),
        (record(["null", time_type]), b"\2", b""),
        ({"type": "array", "items": time_type}, b"\2", b"\0"),
    ):
        serde = AvroSerde(schema)
        data = [begin + long_bytes(number) + end for number in numbers]
        values = [serde.deserialize(each) for each in data]
        assert [serde.serialize(value) for value in values] == data
        assert [serde.serialize(copy.deepcopy(pickle.loads(pickle.dumps(value)))) for value in values] == data
        if serde.arrow_type is not None:
            column = serde.deserialize_column(pa.array(data))
            assert serde.serialize_column(column).to_pylist() == data
            assert python_values(column) == values
            assert pa.array(values, serde.arrow_type).equals(column)


@pytest.mark.parametrize(
    ("schema", "data", "value"),
    [
        (typed("int", "date"), long_bytes(19_000), date(2022, 1, 8)),
        (typed("int", "time-millis"), long_bytes(86_399_999), time(23, 59, 59, 999_000)),
        (typed("long", "time-micros"), long_bytes(86_399_999_999), time(23, 59, 59, 999_999)),
        (typed("long", "timestamp-millis"), long_bytes(-62135596800000), datetime(1, 1, 1, tzinfo=UTC)),
        (typed("long", "timestamp-micros"), long_bytes(1), datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
        (typed("long", "local-timestamp-millis"), long_bytes(-1), BEFORE_THE_EPOCH),
        (typed("long", "timestamp-nanos"), long_bytes(1_700_000_000_123_456_789), 1_700_000_000_123_456_789),
        (typed("string", "uuid"), bytes_bytes(b"0" * 8 + b"-0000-0000-0000-" + b"0" * 12), UUID(int=0)),
        (typed("bytes", "decimal", precision=4, scale=2), b"\4\1\0", Decimal("2.56")),
        ({"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}, bytes(range(12)), bytes(range(12))),
    ],
)
def test_what_python_holds_is_what_python_has_for_it(schema: Any, data: bytes, value: Any) -> None:
    serde = AvroSerde(schema)
    read = serde.deserialize(data)
    assert read == value
    assert type(read) is type(value)
    assert serde.serialize(value) == data


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\0\1", b"\1\0", b"\xff\x80", b"\x80", b"\x7f" * 5, b"\x80" + b"\0" * 9, b"\0" * 40]
)
@pytest.mark.parametrize("kind", ["bytes", "fixed"])
def test_a_decimal_beyond_its_precision_or_longer_than_it_needs_keeps_its_bytes(kind: str, data: bytes) -> None:
    schema = {"type": kind, "name": "D", "size": len(data), "logicalType": "decimal", "precision": 1, "scale": 0}
    if kind == "fixed" and not data:
        return
    serde = AvroSerde(schema)
    written = data if kind == "fixed" else bytes_bytes(data)
    value = serde.deserialize(written)
    assert value == int.from_bytes(data, "big", signed=True)
    assert serde.serialize(value) == serde.serialize(copy.deepcopy(pickle.loads(pickle.dumps(value)))) == written


def test_a_decimal_of_the_application_s_own_keeps_to_the_precision() -> None:
    serde = AvroSerde(typed("bytes", "decimal", precision=4, scale=2))
    assert serde.serialize(Decimal("1.500")) == serde.serialize(Decimal("1.5")) == b"\4\0\x96"
    for refused in (Decimal("123"), Decimal("1.234"), Decimal("NaN"), Decimal("1E+99999"), Decimal("1E-99999"), 1, 1.5):
        with pytest.raises(SerializationError, match="does not fit"):
            serde.serialize(refused)


@pytest.mark.parametrize("text", ["00000000-0000-0000-0000-00000000000A", "{00000000000000000000000000000000}", "no"])
def test_a_uuid_in_another_form_stays_the_text_that_it_is(text: str) -> None:
    serde = AvroSerde(typed("string", "uuid"))
    data = bytes_bytes(text.encode())
    assert serde.deserialize(data) == text
    assert serde.serialize(text) == data


def test_a_time_beyond_compares_with_what_it_stands_in_for() -> None:
    timestamp, local, day, of_day = (
        AvroSerde(typed(kind, logical)).deserialize(long_bytes(number))
        for kind, logical, number in (
            ("long", "timestamp-millis", 253402300800000),
            ("long", "local-timestamp-micros", -(2**62)),
            ("int", "date", 2**31 - 1),
            ("int", "time-millis", 86_400_000),
        )
    )
    assert isinstance(timestamp, BeyondDatetime)
    now = datetime(2024, 1, 1, tzinfo=UTC)
    assert now < timestamp
    assert timestamp > now.astimezone(timezone(timedelta(hours=2)))
    assert max(now, timestamp) is timestamp
    assert local < datetime(1, 1, 1) <= datetime(1, 1, 2)  # noqa: DTZ001
    assert day > date.max
    assert of_day > time.max
    assert not of_day <= time.max
    assert timestamp == 253402300800000 != local
    assert timestamp != now
    assert hash(timestamp) == hash(253402300800000)
    with pytest.raises(TypeError):
        _ = timestamp < date.max
    with pytest.raises(TypeError):
        _ = timestamp < datetime(2024, 1, 1)  # noqa: DTZ001


def test_nanoseconds_are_written_from_numbers_and_from_times_that_have_them() -> None:
    serde = AvroSerde(typed("long", "timestamp-nanos"))
    for value in (pd.Timestamp(1_700_000_000_123_456_789, tz="UTC"), 1_700_000_000_123_456_789):
        assert serde.serialize(value) == long_bytes(1_700_000_000_123_456_789)
    assert serde.serialize(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)) == long_bytes(10**9)
    with pytest.raises(SerializationError, match="beyond a long"):
        serde.serialize(datetime(9999, 1, 1, tzinfo=UTC))


def test_a_time_is_not_written_as_one_of_another_kind_or_unit() -> None:
    value = AvroSerde(typed("long", "timestamp-millis")).deserialize(long_bytes(2**62))
    for logical in ("timestamp-micros", "local-timestamp-millis", "time-micros"):
        with pytest.raises(SerializationError, match="does not fit"):
            AvroSerde(typed("long", logical)).serialize(value)


@pytest.mark.parametrize("number", [-(2**40), 2**40])
def test_an_int_of_more_than_32_bits_is_malformed_alone_and_in_a_column(number: int) -> None:
    for schema in ("int", typed("int", "date"), record("int")):
        serde = AvroSerde(schema)
        with pytest.raises(SerializationError):
            serde.deserialize(long_bytes(number))
        with pytest.raises(SerializationError):
            serde.deserialize_column(pa.array([long_bytes(number)]))


STAMPED = AvroSerde(record(typed("long", "timestamp-millis"), typed("int", "date")))
SENTINELS = [long_bytes(-62135769600000) + b"\0", long_bytes(253402300800000) + long_bytes(2**31 - 1), b"\2\4"]


def _as_it_is(stream: KStream) -> KStream:
    return stream


def _by_callables(stream: KStream) -> KStream:
    return stream.filter(lambda k, v: v["f0"] != datetime(2000, 1, 1, tzinfo=UTC)).map_values(lambda k, v: dict(v))


def _aggregated(stream: KStream) -> KStream:
    latest = agg.struct(f0=agg.first("f0"), f1=agg.last("f1"))
    grouped = stream.group_by_key(Grouped.with_(StringSerde(), STAMPED))
    return grouped.aggregate(latest, None, Materialized.with_(StringSerde(), STAMPED)).to_stream()


@pytest.mark.parametrize("through", [_as_it_is, _by_callables, _aggregated])
def test_sentinels_pass_through_an_application(through: Callable[[KStream], KStream]) -> None:
    builder = StreamsBuilder()
    through(builder.stream("in", Consumed.with_(StringSerde(), STAMPED))).to(
        "out", Produced.with_(StringSerde(), STAMPED)
    )
    with TopologyTestDriver(builder.build(), {"deserialization.exception.handler": "continue"}) as driver:
        topic = driver.create_input_topic("in", StringSerde(), BytesSerde())
        topic.pipe_batch([TestRecord(str(index), data, timestamp=index) for index, data in enumerate(SENTINELS)])
        out = driver.create_output_topic("out", StringSerde(), BytesSerde()).read_key_values()
        assert not driver.dropped
    assert out == [(str(index), data) for index, data in enumerate(SENTINELS)]


@pytest.mark.parametrize(("logical", "per_ms"), [("timestamp-millis", 1), ("timestamp-micros", 1_000)])
def test_a_field_of_such_times_is_the_event_time_alone_and_in_columns(logical: str, per_ms: int) -> None:
    serde = AvroSerde(record(typed("long", logical)))
    extractor = field_timestamp("f0")
    late, early = long_bytes(253402300800000 * per_ms), long_bytes(-62135769600000 * per_ms)
    assert extractor(None, serde.deserialize(late), 0, 0) == 253402300800000
    times = extractor.extract_column(serde.deserialize_column(pa.array([late, early])), np.zeros(2, np.int64))
    assert times is not None
    assert times.tolist() == [253402300800000, -62135769600000]
    with pytest.raises(ProcessingError):
        extractor(None, serde.deserialize(early), 0, 0)
