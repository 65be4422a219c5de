"""When an application and its canary have processed the same input."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from millrace.kafka.offsets import End
from millrace.topology.topic_partition import TopicPartition

compare = importlib.import_module("millrace.supervise.canary.compare")  # the package has a function of this name
INPUT, INTERNAL = ("orders", 0), ("app-by-shop-repartition", 0)


class MovingBroker:
    """One record is on its way: whoever asks, its first task commits it between the first request and the second."""

    def __init__(self) -> None:
        self.committed = {INPUT: 9, INTERNAL: 5}
        self.ends = {INPUT: 10, INTERNAL: 5}
        self.unmarked = 0
        self.requests = 0

    def describe_topics(self, names: Iterable[str]) -> dict[str, Any]:
        return {name: SimpleNamespace(topic_partitions=[(name, 0)]) for name in names}

    def _answer(self) -> None:
        self.requests += 1
        if self.requests == 2:
            self.committed[INPUT], self.ends[INTERNAL] = 10, 6

    def committed_offsets(
        self, _admin: object, _group: str, topic_partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Any]:
        self._answer()
        return {
            topic_partition: SimpleNamespace(offset=self.committed[topic_partition])
            for topic_partition in topic_partitions
        }

    def end_offsets(
        self, _admin: object, topic_partitions: Iterable[TopicPartition], end: End = End.LAST_STABLE
    ) -> dict[TopicPartition, int]:
        self._answer()
        return {
            topic_partition: self.ends[topic_partition] - (self.unmarked if end is End.LAST_STABLE else 0)
            for topic_partition in topic_partitions
        }


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> MovingBroker:
    broker = MovingBroker()
    monkeypatch.setattr(compare, "committed_offsets", broker.committed_offsets)
    monkeypatch.setattr(compare, "end_offsets", broker.end_offsets)
    return broker


def records_behind(broker: Any) -> int:
    lag: int = compare._lag(broker, "app", [INPUT[0]], [INTERNAL[0]])
    return lag


def test_a_record_on_its_way_between_two_tasks_is_never_overlooked(broker: MovingBroker) -> None:
    assert records_behind(broker) == 2
    assert records_behind(broker) == 1
    broker.committed[INTERNAL] = 6
    assert records_behind(broker) == 0


def test_nor_one_whose_commit_is_acknowledged_before_its_marker_is_written(broker: MovingBroker) -> None:
    broker.requests, broker.unmarked = 2, 1
    broker.committed[INPUT], broker.ends[INTERNAL] = 10, 6
    assert records_behind(broker) == 1
