"""The versions of one key in the order of time, and how a put changes them: the core of a versioned store."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from millrace.topology.state_stores import VALID_TO_UNDEFINED


class VersionedRecord(NamedTuple):
    """A version of a key's value.

    Args:
        value: the value's bytes.
        timestamp: since when it is valid, milliseconds, inclusive.
        valid_to: until when, milliseconds, exclusive; ``None`` for the newest version.
    """

    value: bytes
    timestamp: int
    valid_to: int | None


@dataclass
class Versions:
    """Versions of a key by timestamp; ``None`` is a tombstone. A version is valid until the next one.

    Args:
        times: timestamps, milliseconds, ascending.
        values: value bytes.
        ends_tombstone: the newest value ends a tombstone that was put later than it, or at its very timestamp.
    """

    times: list[int] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    ends_tombstone: bool = False

    def copy(self) -> Versions:
        """Returns an independent copy."""
        return Versions(list(self.times), list(self.values), self.ends_tombstone)

    def put(self, value: bytes | None, timestamp: int) -> int:
        """Adds a version, or replaces the one of the same timestamp.

        Returns:
            the timestamp of the next version, ``VALID_TO_UNDEFINED`` where there is none.
        """
        index = bisect_left(self.times, timestamp)
        newest = len(self.times) - 1
        if index > newest:
            self.times.append(timestamp)
            self.values.append(value)
            self.ends_tombstone = False
            return VALID_TO_UNDEFINED
        if self.times[index] != timestamp:
            self.times.insert(index, timestamp)
            self.values.insert(index, value)
            newest += 1
        elif index == newest:
            self._replace_newest(value)
            return VALID_TO_UNDEFINED
        else:
            self.values[index] = value
        if index + 1 == newest and self.values[newest] is not None:
            self.ends_tombstone = True
        return self.times[index + 1]

    def _replace_newest(self, value: bytes | None) -> None:
        before = self.values[-1]
        if value is None and before is not None and not self._is_end_known():
            del self.times[-1], self.values[-1]
        else:
            self.values[-1] = value
        if (value is None) != (before is None):
            self.ends_tombstone = before is None

    def _is_end_known(self) -> bool:
        """Returns whether a tombstone at the very timestamp of the newest value leaves a trace.

        In Kafka Streams it is only known as the end of the version before. Where none ends there, as after a tombstone
        that came first, a later put with an earlier timestamp is the newest version of its key.
        """
        return self.ends_tombstone or (len(self.values) > 1 and self.values[-2] is not None)

    def as_of(self, timestamp: int) -> VersionedRecord | None:
        """Returns the version that is valid at ``timestamp``; ``None`` if the key has no value then."""
        return self._version(bisect_right(self.times, timestamp) - 1)

    def latest(self) -> VersionedRecord | None:
        """Returns the newest version; ``None`` if the key is deleted or unknown."""
        return self._version(len(self.times) - 1)

    def between(self, from_time: int, to_time: int) -> list[VersionedRecord]:
        """Returns the versions that are valid at some time within the bounds, both inclusive, by timestamp."""
        first = max(bisect_right(self.times, from_time) - 1, 0)
        indices = range(first, bisect_right(self.times, to_time))
        return [version for index in indices if (version := self._version(index)) is not None]

    def _version(self, index: int) -> VersionedRecord | None:
        if index < 0:
            return None
        value = self.values[index]
        if value is None:
            return None
        return VersionedRecord(value, self.times[index], self.times[index + 1] if index + 1 < len(self.times) else None)
