"""Where each input partition goes: from what was asked and what the log has. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from millrace.errors import OperationError
from millrace.topology.topic_partition import TopicPartition


@dataclass(frozen=True)
class ToEarliest:
    """The first record that the log has."""


@dataclass(frozen=True)
class ToLatest:
    """The end of the log (the last stable offset)."""


@dataclass(frozen=True)
class ToOffset:
    """An offset, the same for all partitions."""

    offset: int


@dataclass(frozen=True)
class ToTime:
    """The first record whose timestamp is not before a time, milliseconds since 1970; the end where there is none."""

    time_ms: int


@dataclass(frozen=True)
class ShiftBy:
    """So many records from where the group is; negative goes back."""

    offsets: int


@dataclass(frozen=True)
class ToOffsets:
    """An offset for each partition that is named; the others stay where they are."""

    offsets: Mapping[TopicPartition, int]


Target = ToEarliest | ToLatest | ToOffset | ToTime | ShiftBy | ToOffsets


@dataclass(frozen=True, kw_only=True)
class PartitionLog:
    """What is known of an input partition.

    Args:
        begin: first offset that the log has.
        end: last stable offset.
        committed: where the group is, where it has committed.
        at_time: offset of the first record at or after the time asked for, where there is one.
    """

    begin: int
    end: int
    committed: int | None = None
    at_time: int | None = None


@dataclass(frozen=True, kw_only=True)
class Move:
    """Where a partition is, what was asked for, and where it goes, which is inside the log."""

    before: int | None
    asked: int
    after: int

    @property
    def is_clamped(self) -> bool:
        """Whether the log does not have what was asked for."""
        return self.asked != self.after

    def __str__(self) -> str:
        clamped = f" (asked for {self.asked}, which the log does not have)" if self.is_clamped else ""
        return f"from {'none' if self.before is None else self.before} to {self.after}{clamped}"


def moves(target: Target, logs: Mapping[TopicPartition, PartitionLog]) -> dict[TopicPartition, Move]:
    """Where each partition goes.

    Args:
        target: what was asked for.
        logs: the partitions of the topics to reset, as they are.

    Raises:
        OperationError: something cannot be known of a partition, or a partition does not exist: then nothing moves.
    """
    if isinstance(target, ToOffsets) and (unknown := sorted(set(target.offsets) - set(logs))):
        raise OperationError(
            f"Offsets are given for partitions that are not among those to reset: {_names(unknown)}.",
            remedy="give only partitions of the input topics; see them with --dry-run",
        )
    asked = {place: _asked(target, place, log) for place, log in logs.items()}
    if nowhere := sorted(place for place, offset in asked.items() if offset is None):
        raise OperationError(
            f"The group has not committed an offset of {_names(nowhere)}, so nothing can be kept or shifted there.",
            remedy="reset to a place in the log (--to-earliest, --to-offset, ...), or give the offsets in a file",
        )
    return {
        place: Move(before=log.committed, asked=offset, after=clamped(offset, begin=log.begin, end=log.end))
        for place, log in logs.items()
        if (offset := asked[place]) is not None
    }


def clamped(offset: int, *, begin: int, end: int) -> int:
    """The offset nearest to ``offset`` that a start accepts."""
    return max(begin, min(offset, end))


def _asked(target: Target, place: TopicPartition, log: PartitionLog) -> int | None:
    match target:
        case ToEarliest():
            return log.begin
        case ToLatest():
            return log.end
        case ToOffset(offset=offset):
            return offset
        case ToTime():
            return log.end if log.at_time is None else log.at_time
        case ShiftBy(offsets=offsets):
            return None if log.committed is None else log.committed + offsets
        case ToOffsets(offsets=given):
            return given.get(place, log.committed)


_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


def parse_time(text: str) -> int:
    """Milliseconds since 1970 of ``2026-03-01T12:00:00.000``; UTC where no zone is given.

    Raises:
        OperationError: it is no such time.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise OperationError(
            f"{text!r} is no time.", remedy="write it as 2026-03-01T12:00:00.000, with or without a zone"
        ) from error
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def parse_duration(text: str) -> timedelta:
    """The duration of ``PnDTnHnMnS`` (ISO 8601).

    Raises:
        OperationError: it is none.
    """
    found = _DURATION.fullmatch(text)
    parts = {name: float(value) for name, value in (found.groupdict() if found else {}).items() if value is not None}
    if not parts:
        raise OperationError(
            f"{text!r} is no duration.", remedy="write it as P1DT2H30M10S: days, hours, minutes, seconds"
        )
    return timedelta(**parts)


def parse_offsets(text: str) -> ToOffsets:
    """The offsets in lines ``topic,partition,offset``, as Kafka's tools export them; empty lines count for nothing.

    Raises:
        OperationError: a line is something else, or a partition stands there twice.
    """
    offsets: dict[TopicPartition, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        topic, *numbers = (part.strip().strip('"') for part in line.split(","))
        try:
            partition, offset = map(int, numbers)
        except ValueError as error:
            raise OperationError(
                f"Line {number} of the offsets is {line!r}.", remedy="write topic,partition,offset"
            ) from error
        if (topic, partition) in offsets:
            raise OperationError(f"Line {number} gives {topic}-{partition} once more.", remedy="keep one of the lines")
        offsets[topic, partition] = offset
    return ToOffsets(offsets)


def _names(places: list[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in places)
