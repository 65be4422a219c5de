"""Which dead-letter records are meant. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from millrace.errors import OperationError
from millrace.operations.dead_letters.record import DeadLetterRecord


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which dead-letter records are meant: those that fit everything that is given.

    Args:
        since_ms: the record's timestamp is not before, milliseconds since 1970.
        until_ms: the record's timestamp is before.
        error: part of the exception's name, or of the reason for which it was dropped; small and capital are the same.
        topic: where the record was read.
        positions: partition and offset of records in the dead-letter topic.
    """

    since_ms: int | None = None
    until_ms: int | None = None
    error: str = ""
    topic: str | None = None
    positions: frozenset[tuple[int, int]] = frozenset()

    def has(self, record: DeadLetterRecord) -> bool:
        """Whether a dead-letter record is meant."""
        return (
            (self.since_ms is None or record.timestamp >= self.since_ms)
            and (self.until_ms is None or record.timestamp < self.until_ms)
            and self.error.lower() in record.error.lower()
            and self.topic in {None, record.topic}
            and (not self.positions or record.place in self.positions)
        )

    def check_found(self, found: set[tuple[int, int]]) -> None:
        """Does nothing where every dead-letter record that was named is there.

        Raises:
            OperationError: one is not, or does not fit what else is given.
        """
        if missing := sorted(self.positions - found):
            raise OperationError(
                f"There is no such dead-letter record: "
                f"{', '.join(f'{partition}:{offset}' for partition, offset in missing)}.",
                remedy="see them with `millrace dlq list`",
            )


def parse_record_position(text: str) -> tuple[int, int]:
    """Partition and offset of ``partition:offset``.

    Raises:
        OperationError: it is something else.
    """
    partition, _, offset = text.partition(":")
    if not (partition.isdigit() and offset.isdigit()):
        raise OperationError(
            f"{text!r} names no dead-letter record.", remedy="write partition:offset, as `millrace dlq list`"
        )
    return int(partition), int(offset)


def as_ranges(offsets: list[int]) -> list[tuple[int, int]]:
    """Sorted offsets as ranges of first and last: what a plan keeps of thousands of records."""
    ranges: list[tuple[int, int]] = []
    for offset in offsets:
        if ranges and ranges[-1][1] + 1 == offset:
            ranges[-1] = (ranges[-1][0], offset)
        else:
            ranges.append((offset, offset))
    return ranges
