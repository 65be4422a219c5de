"""Partitioners that choose several partitions, or none (KIP-837)."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.dsl import (
    Consumed,
    KTable,
    Materialized,
    Produced,
    Repartitioned,
    StreamsBuilder,
    TableJoined,
    Topology,
)
from millrace.errors import ProcessingError
from millrace.metrics import DropReason
from millrace.serdes import JsonSerde, LongSerde, StringSerde
from millrace.testing import TestRecord, TopologyTestDriver

TEXT = StringSerde()
JSON = JsonSerde()
CONTINUE = {"processing.exception.handler": "continue"}


def by_value(topic: str, key: Any, value: Any, partitions: int) -> Any:
    """What the value says, with ``fail`` for a partitioner that raises."""
    assert partitions == 4
    if value == "fail":
        raise ValueError("no idea")
    answers = {"all": set(range(partitions)), "list": [2, 0, 2], "none": [], "key": None, "frozen": frozenset({3})}
    return answers[value] if isinstance(value, str) else value


def written(*values: Any, settings: dict[str, Any] | None = None) -> tuple[list[tuple[Any, Any, Any]], Any]:
    """Key, value and partition of each record of ``out``; and what was dropped."""
    builder = StreamsBuilder()
    produced = Produced.with_(TEXT, JSON).with_stream_partitioner(by_value)
    builder.stream("in", Consumed.with_(TEXT, JSON)).to("out", produced)
    with TopologyTestDriver(builder.build(), settings, partitions={"out": 4}) as driver:
        topic = driver.create_input_topic("in", TEXT, JSON)
        topic.pipe_batch([TestRecord(f"k{index}", value, index, [("h", b"1")]) for index, value in enumerate(values)])
        records = driver.create_output_topic("out", TEXT, JSON).read_records()
        assert all(record.headers == [("h", b"1")] for record in records)
        return [(record.key, record.value, record.partition) for record in records], driver.dropped


def test_a_record_is_written_to_each_partition_that_was_chosen_and_the_order_stays() -> None:
    found, dropped = written("all", 1, "list", "key", "frozen")
    assert found == [
        *[("k0", "all", partition) for partition in range(4)],
        ("k1", 1, 1),
        ("k2", "list", 2),
        ("k2", "list", 0),
        ("k3", "key", None),
        ("k4", "frozen", 3),
    ]
    assert not dropped


def test_a_record_for_which_no_partition_is_chosen_is_dropped_and_counted() -> None:
    assert written("none", 2, "none") == ([("k1", 2, 2)], {DropReason.NO_PARTITION: 2})


def test_a_dropped_record_has_a_dead_letter_where_that_was_asked_for() -> None:
    builder = StreamsBuilder()
    produced = Produced.with_(TEXT, JSON).with_stream_partitioner(by_value)
    builder.stream("in", Consumed.with_(TEXT, JSON)).to("out", produced)
    settings = {
        "errors.dead.letter.queue.topic.name": "dlq",
        "errors.dead.letter.queue.dropped.records": "no_partition",
    }
    with TopologyTestDriver(builder.build(), settings, partitions={"out": 4}) as driver:
        driver.create_input_topic("in", TEXT, JSON).pipe_batch([TestRecord("a", "none"), TestRecord("b", 0)])
        (record,) = driver.create_output_topic("dlq", TEXT, JSON).read_records()
        assert (record.key, record.value) == ("a", "none")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (4, "chose partition 4 of topic out, which has 4"),
        (-1, "chose partition -1"),
        ([0, 7], "chose partition 7"),
        (True, "chose partition True"),
        (1.0, "chose 1.0, which is no partition"),
        ("fail", "ValueError: no idea"),
    ],
)
def test_an_answer_that_is_no_partition_is_left_to_the_processing_handler(answer: Any, text: str) -> None:
    with pytest.raises(ProcessingError, match=text):
        written(answer)
    assert written(1, answer, 2, settings=CONTINUE) == ([("k0", 1, 1), ("k2", 2, 2)], {DropReason.PROCESSING: 1})


def test_repartition_topics_may_have_a_record_several_times() -> None:
    def everywhere(topic: str, key: Any, value: Any, partitions: int) -> set[int]:
        return set(range(partitions))

    builder = StreamsBuilder()
    through = Repartitioned.with_(TEXT, TEXT).with_name("r").with_number_of_partitions(3)
    repeated = builder.stream("in", Consumed.with_(TEXT, TEXT)).repartition(through.with_stream_partitioner(everywhere))
    repeated.group_by_key().count(Materialized.as_("counts")).to_stream().to("out", Produced.with_(TEXT, LongSerde()))
    with TopologyTestDriver(builder.build(), {"application.id": "app"}, partitions={"app-r-repartition": 3}) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("a", "1")
        assert driver.create_output_topic("out", TEXT, LongSerde()).read_key_values() == [("a", 1), ("a", 2), ("a", 3)]


def test_a_sink_of_a_topology_made_by_hand_may_choose_several_too() -> None:
    topology = Topology()
    topology.add_source("s", "in", key_serde=TEXT, value_serde=TEXT)
    topology.add_sink("k", "out", "s", key_serde=TEXT, value_serde=TEXT, partitioner=lambda *_: [1, 0])
    with TopologyTestDriver(topology, partitions={"out": 2}) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("a", "1")
        records = driver.create_output_topic("out", TEXT, TEXT).read_records()
        assert [record.partition for record in records] == [1, 0]


@pytest.mark.parametrize(("answer", "fits"), [([0], True), ({0}, True), (0, True), ([], False), ([0, 0], False)])
def test_a_foreign_key_join_goes_by_exactly_one_partition(answer: Any, fits: bool) -> None:
    builder = StreamsBuilder()
    read = Consumed.with_(TEXT, TEXT)
    left, right = builder.table("left", read), builder.table("right", read)
    joined: KTable = left.join(
        right,
        lambda one, other: f"{one}{other}",
        foreign_key_extractor=lambda value: value,
        table_joined=TableJoined.with_(lambda *_: answer, lambda *_: answer),
    )
    joined.to_stream().to("out", Produced.with_(TEXT, TEXT))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("right", TEXT, TEXT).pipe_input("r", "x")
        topic = driver.create_input_topic("left", TEXT, TEXT)
        if fits:
            topic.pipe_input("a", "r")
            assert driver.create_output_topic("out", TEXT, TEXT).read_key_values() == [("a", "rx")]
        else:
            with pytest.raises(ProcessingError, match="a foreign-key join needs exactly one"):
                topic.pipe_input("a", "r")
