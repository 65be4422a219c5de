"""Serdes of users for windowed keys."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.dsl import (
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Repartitioned,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
)
from millrace.errors import SerializationError
from millrace.kafka.murmur2 import partitions_for
from millrace.serdes import JsonSerde, LongSerde, StringSerde, Windowed, serde_from
from millrace.testing import TestRecord, TopologyTestDriver

TEXT = StringSerde()
LONG = LongSerde()
READ = Consumed.with_(TEXT, TEXT)


class AsText:
    """``key@start/end``."""

    arrow_type = None

    def serialize(self, value: Any) -> bytes:
        return f"{value.key}@{value.start}/{value.end}".encode()

    def deserialize(self, data: bytes) -> Windowed:
        key, _, bounds = data.decode().rpartition("@")
        start, _, end = bounds.partition("/")
        return Windowed(key, int(start), int(end))

    def serialize_column(self, values: Any) -> Any:
        raise NotImplementedError

    def deserialize_column(self, data: Any) -> Any:
        raise NotImplementedError


class WithItsKey(AsText):
    def serialize_base_key(self, value: Any) -> bytes:
        return str(value.key).encode()


SERDES = [AsText(), WithItsKey(), serde_from(AsText().serialize, AsText().deserialize)]


@pytest.mark.parametrize("serde", SERDES, ids=["class", "with base key", "functions"])
@pytest.mark.parametrize(
    ("windows", "end"),
    [(TimeWindows.of_size_with_no_grace(10), 20), (SessionWindows.of_inactivity_gap_with_no_grace(5), 13)],
)
def test_windowed_keys_are_written_and_read_by_a_serde_of_the_user(serde: Any, windows: Any, end: int) -> None:
    produced = Produced.with_(serde, LONG)
    builder = StreamsBuilder()
    table = builder.stream("in", READ).group_by_key().windowed_by(windows).count(Materialized.as_("c"))
    table.to_stream().to("plain", produced)
    table.to_stream().repartition(Repartitioned.with_(serde, LONG).with_name("r")).to("through", produced)
    table.group_by(lambda key, value: (key, value), Grouped.with_(serde, LONG)).count(
        Materialized.with_(serde, None)
    ).to_stream().to("again", produced)
    builder.stream("windowed", Consumed.with_(serde, TEXT)).group_by_key().count().to_stream().to("counted", produced)
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("a", "x", 13)
        driver.create_input_topic("windowed", serde, TEXT).pipe_input(Windowed("b", 3, 4), "x", 13)
        key = Windowed("a", 10 if end == 20 else 13, end)
        for topic in ("plain", "through", "again"):
            assert driver.create_output_topic(topic, serde, LONG).read_key_values() == [(key, 1)]
        assert driver.create_output_topic("plain", TEXT, LONG).is_empty
        assert driver.create_output_topic("counted", serde, LONG).read_key_values() == [(Windowed("b", 3, 4), 1)]


@pytest.mark.parametrize("serde", [AsText(), WithItsKey()])
def test_the_windows_of_a_key_share_a_partition_where_the_serde_tells_the_key(serde: Any) -> None:
    builder = StreamsBuilder()
    counted = builder.stream("in", READ).group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10)).count()
    counted.to_stream().to("out", Produced.with_(serde, LONG))
    with TopologyTestDriver(builder.build(), partitions={"out": 16}) as driver:
        keys = [f"k{number}" for number in range(5)]
        driver.create_input_topic("in", TEXT, TEXT).pipe_batch(
            [TestRecord(key, "x", time) for time in (1, 11, 21) for key in keys]
        )
        records = driver.create_output_topic("out", serde, LONG).read_records()
    for key in keys:
        own = [record for record in records if record.key.key == key]
        hashed = [key.encode() if serde.__class__ is WithItsKey else serde.serialize(record.key) for record in own]
        assert [record.partition for record in own] == partitions_for(hashed, 16).tolist()


@pytest.mark.parametrize("serde", [TEXT, JsonSerde(), LONG])
def test_a_serde_of_plain_keys_is_refused_with_what_to_give_instead(serde: Any) -> None:
    builder = StreamsBuilder()
    counted = builder.stream("in", READ).group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10)).count()
    counted.to_stream().to("out", Produced.with_(serde, LONG))
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(SerializationError, match="a serde of your own for Windowed keys"),
    ):
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("a", "x", 13)
