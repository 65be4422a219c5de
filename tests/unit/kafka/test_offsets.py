from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from millrace.kafka.clients import kafka_error
from millrace.kafka.offsets import CommittedOffset, ask_committed, lag


@pytest.mark.parametrize(
    ("committed", "end", "expected"),
    [(130, 140, 10), (130, 100, 0), (CommittedOffset(6), 6, 0), (None, 29, None), (0, None, None)],
)
def test_lag_is_never_negative_and_never_guessed(
    committed: int | CommittedOffset | None, end: int | None, expected: int | None
) -> None:
    """Cases M01 and M02."""
    assert lag(committed, end) == expected


class _Coordinator:
    """Answers as a consumer does whose coordinator is not there for some requests."""

    def __init__(self, *refusals: int) -> None:
        self.refusals = list(refusals)

    def committed(self, positions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        if self.refusals:
            raise KafkaException(KafkaError(self.refusals.pop(0)))
        return [
            TopicPartition(each.topic, each.partition, -1001 if each.partition else 7, "note") for each in positions
        ]


def test_committed_offsets_are_asked_again_while_the_coordinator_moves() -> None:
    consumer: Any = _Coordinator(KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    found = ask_committed(consumer, [("a", 0), ("a", 1)], timeout_s=5)
    assert found == {("a", 0): CommittedOffset(7, "note")}
    assert consumer.refusals == []


@pytest.mark.parametrize(
    ("refusals", "timeout_s"),
    [((KafkaError.GROUP_AUTHORIZATION_FAILED,), 5.0), ((KafkaError.NOT_COORDINATOR,) * 1000, 0.1)],
)
def test_other_refusals_and_those_that_do_not_end_are_raised(refusals: tuple[int, ...], timeout_s: float) -> None:
    consumer: Any = _Coordinator(*refusals)
    with pytest.raises(KafkaException) as refused:
        ask_committed(consumer, [("a", 0)], timeout_s=timeout_s)
    assert kafka_error(refused.value).code() == refusals[0]


class _Position:
    """A position as confluent-kafka shows it where a text has no end and bytes that are no text follow."""

    topic, partition, offset, error = "a", 0, 7, None

    def __init__(self, memory: bytes) -> None:
        self._memory = memory

    @property
    def metadata(self) -> str:
        return self._memory.decode()


@pytest.mark.parametrize(
    ("memory", "metadata"),
    [
        (b"AgAAAYvP5Wh7", "AgAAAYvP5Wh7"),
        (b"AgAAAYvP5Wh7\xf6\x7f", "AgAAAYvP5Wh7"),
        ("Zähler".encode() + b"\xe4", "Zähler"),
    ],
)
def test_what_follows_a_text_in_memory_and_is_none_is_cut_off(memory: bytes, metadata: str) -> None:
    consumer: Any = SimpleNamespace(committed=lambda _, timeout: [_Position(memory)])
    assert ask_committed(consumer, [("a", 0)], timeout_s=5) == {("a", 0): CommittedOffset(7, metadata)}
