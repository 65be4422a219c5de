"""Offsets that a broker reports as out of range although the log has them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from millrace.topology.topic_partition import TopicPartition

AGAIN_S = 0.5
"""Time until such an offset is asked for once more, seconds."""

LIMIT_S = 30.0
"""How long the broker may call an offset of its log out of range before this is taken as true, seconds."""

NOT_IN_LOG_LIMIT_S = 5.0
"""The same where the log does not have the offset by what the broker or the client says of its begin and end, seconds:
while leaders change, both have been wrong for a moment."""

ASKING_LIMIT_MS = 1_000
"""How long a broker may take to say where a log begins and ends, milliseconds."""

_log = structlog.get_logger(__name__)


@dataclass
class _Dispute:
    position: int
    began_at: float
    again_at: float | None


class DisputedOffsets:
    """The topic-partitions that are read again from their positions after a doubtful "out of range".

    While partitions change leaders, a broker that is not up to date can answer that an offset is out of range. To
    believe it would end an application although all its records are there.

    Args:
        ask: where a topic-partition's log begins and ends; ``None`` where no broker says so at present.
        clock: a monotonic clock, seconds.
    """

    def __init__(
        self,
        ask: Callable[[TopicPartition], tuple[int, int] | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._disputes: dict[TopicPartition, _Dispute] = {}

    def disputes(self, where: TopicPartition, position: int) -> bool:
        """Returns whether an offset reported as out of range is to be read again.

        It is where the log has it, where no broker says what the log has, and for a while where the log has it not.

        Args:
            where: the topic-partition.
            position: the offset.
        """
        known = self._ask(where)
        now = self._clock()
        last = self._disputes.get(where)
        if last is None or last.position != position:
            last = self._disputes[where] = _Dispute(position, now, None)
            _log.warning(
                "an offset is said to be out of range: it is asked for again",
                topic=where[0], partition=where[1], offset=position, log=known,
            )  # fmt: skip
        may_be_in_log = known is None or known[0] <= position <= known[1]
        if now - last.began_at >= (LIMIT_S if may_be_in_log else NOT_IN_LOG_LIMIT_S):
            return False
        last.again_at = now + AGAIN_S
        return True

    def take_due(self) -> dict[TopicPartition, int]:
        """Takes the offsets that are due to be requested again now, each once."""
        now = self._clock()
        due = {}
        for where, each in self._disputes.items():
            if each.again_at is not None and now >= each.again_at:
                each.again_at = None
                due[where] = each.position
        return due

    def discard(self, where: TopicPartition) -> None:
        """Ends the dispute about a topic-partition: a record or event of it arrived, or it is no longer read."""
        self._disputes.pop(where, None)
