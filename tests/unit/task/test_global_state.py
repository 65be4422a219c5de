"""Global stores that another operator than a table's writes, as ``Topology.add_global_store`` makes them."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.config import StreamsConfig
from millrace.errors import ProcessingError
from millrace.metrics import DropReason
from millrace.serdes import LongSerde, StringSerde
from millrace.state import TaskPosition, TaskState
from millrace.task.collector import OutputBuffer
from millrace.task.global_state import GlobalState, behind
from millrace.testing.topics import RawRecord, input_batch
from millrace.topology.aggregators import ReduceAggregator
from millrace.topology.freeze import freeze
from millrace.topology.logical import GlobalStoreInput, LogicalGraph
from millrace.topology.operators import StreamAggregate
from millrace.topology.parts import GlobalStore
from millrace.topology.stores import StoreKind, StoreSpec

TEXT, LONG = StringSerde(), LongSerde()


def add(total: int, value: int) -> int:
    if value == 13:
        raise ValueError("13")
    return total + value


def summing() -> GlobalStore:
    """Sums the values of each key of the topic."""
    node = GlobalStoreInput(
        name="summing",
        source_name="totals-source",
        topic="totals",
        store=StoreSpec(name="sums", kind=StoreKind.KEY_VALUE, key_serde=TEXT, value_serde=LONG),
        operator=StreamAggregate("sums", ReduceAggregator(add)),
        key_serde=TEXT,
        value_serde=LONG,
    )
    (part,) = freeze(LogicalGraph(nodes=(node,))).global_stores
    return part


class Applied:
    """A global state in memory, and what is applied to it."""

    def __init__(self, **settings: str) -> None:
        config = StreamsConfig.from_mapping(
            {
                "application.id": "app",
                "bootstrap.servers": "none:0",
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        part = summing()
        self.state = TaskState.open(None, (part.store,))
        self.global_state = GlobalState(part, config, self.state)
        self.dead_letters = OutputBuffer()
        self.end = 0

    def apply(self, *records: tuple[Any, int]) -> None:
        raw = [RawRecord(TEXT.serialize(key), LONG.serialize(value), 7, []) for key, value in records]
        batch = input_batch(("totals",), [("totals", self.end + index, record) for index, record in enumerate(raw)])
        position = TaskPosition(inputs={("totals", 0): self.end + len(raw)})
        self.global_state.apply(batch, position, self.dead_letters)
        self.end += len(raw)

    @property
    def sums(self) -> dict[str, int]:
        return {TEXT.deserialize(key): LONG.deserialize(value) for key, value, _ in self.global_state.store.all()}


def test_the_operator_writes_the_store_and_the_position_moves_with_it() -> None:
    applied = Applied()
    applied.apply(("a", 1), ("b", 2), ("a", 3))
    applied.apply(("a", 4))
    assert applied.sums == {"a": 8, "b": 2}
    assert applied.global_state.position.inputs == {("totals", 0): 4}


def test_a_failing_operator_leaves_the_store_and_the_position_as_they_were() -> None:
    applied = Applied()
    applied.apply(("a", 1))
    with pytest.raises(ProcessingError, match="totals-0 offset 2"):
        applied.apply(("b", 2), ("a", 13))
    assert applied.sums == {"a": 1}
    assert applied.global_state.position.inputs == {("totals", 0): 1}


def test_a_handler_that_continues_drops_the_record_and_sends_it_to_the_dead_letter_topic() -> None:
    applied = Applied(processing_exception_handler="continue", errors_dead_letter_queue_topic_name="dlq")
    applied.apply(("a", 1), ("a", 13), ("a", 2))
    assert applied.sums == {"a": 3}
    assert applied.global_state.failures.dropped == {DropReason.PROCESSING: 1}
    (dead_letters,) = applied.dead_letters.take()
    assert (dead_letters.topic, dead_letters.values) == ("dlq", [LONG.serialize(13)])


def test_building_anew_starts_from_nothing() -> None:
    applied = Applied()
    applied.apply(("a", 1))
    store = applied.global_state.store
    with applied.global_state.rebuilding():
        assert applied.global_state.is_incomplete
        assert applied.global_state.position.inputs == {}
        applied.end = 0
        applied.apply(("a", 5))
    assert store.get(b"a") == (LONG.serialize(5), 7)
    assert applied.sums == {"a": 5}


def test_a_position_is_behind_the_ends_that_it_has_not_reached() -> None:
    position = TaskPosition(inputs={("t", 0): 3, ("t", 1): 0})
    assert behind(position, {("t", 0): 3, ("t", 1): 0}) == {}
    assert behind(position, {("t", 0): 4, ("t", 1): 0, ("t", 2): 0}) == {("t", 0): 4, ("t", 2): 0}
