"""Offsets that the demo asks for while brokers come and go."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from demo import topics
from demo.topics import committed_offsets, end_offsets
from millrace.errors import BrokerUnavailableError, OpenTransactionError
from millrace.kafka import offsets
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import CommittedOffset
from millrace.kafka.topics import TopicDescription

Partitions = Collection[tuple[str, int]]


@pytest.fixture
def _two_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    described = {"in": TopicDescription(name="in", topic_id="t", partitions=2, replication_factor=3)}
    monkeypatch.setattr(KafkaAdmin, "describe_topics", lambda _self, _names: described)


@pytest.mark.usefixtures("_two_partitions")
def test_they_are_asked_for_again_where_a_broker_is_lost_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    fails = [BrokerUnavailableError("x"), OpenTransactionError("x"), BrokerUnavailableError("x")]

    def committed(_admin: KafkaAdmin, group: str, _partitions: Partitions) -> Mapping[tuple[str, int], CommittedOffset]:
        assert group == "app"
        if fails:
            raise fails.pop()
        return {("in", 1): CommittedOffset(7)}

    monkeypatch.setattr(offsets, "committed_offsets", committed)
    assert committed_offsets("localhost:1", "app", "in") == {0: 0, 1: 7}
    assert fails == []


@pytest.mark.usefixtures("_two_partitions")
def test_in_the_end_the_error_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_LIMIT_S", 0.05)

    def ends(_admin: KafkaAdmin, _partitions: Partitions) -> Mapping[tuple[str, int], int]:
        raise BrokerUnavailableError("No broker answered.")

    monkeypatch.setattr(offsets, "end_offsets", ends)
    with pytest.raises(BrokerUnavailableError, match="No broker answered"):
        end_offsets("localhost:1", "in")
