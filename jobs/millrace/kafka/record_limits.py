"""The check of records against their topic's settings, before a whole transaction fails because of one of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from millrace.errors import InvalidTimestampError, RecordRefusedError, RecordTooLargeError

DEFAULT_MAX_MESSAGE_BYTES = 1_048_588
"""The broker's default of ``max.message.bytes``."""

NO_TIMESTAMP = -1
"""Timestamp of a record that has none."""

# A batch of one record: 61 bytes of batch header; length, attributes, deltas and counts of the record are at most 25.
_OVERHEAD = 61 + 25
_HEADER_OVERHEAD = 10
_FAR = 2**63 - 1

BEFORE_MAX = "message.timestamp.before.max.ms"
AFTER_MAX = "message.timestamp.after.max.ms"
DIFFERENCE_MAX = "message.timestamp.difference.max.ms"
"""Both of them, in brokers older than 3.6."""

Header = tuple[str, bytes | None]
Headers = Sequence[Header]
Refusal = tuple[int, RecordRefusedError]
"""A record's row in its batch, and why the topic does not take it."""


def system_time_ms() -> int:
    """Returns the wall clock, milliseconds since the epoch."""
    return int(time.time() * 1000)


@dataclass(frozen=True, kw_only=True)
class TopicLimits:
    """The limits of a topic's records, from the topic's settings.

    Args:
        max_message_bytes: largest record, bytes.
        needs_key: whether a record without a key is refused, since the topic is compacted.
        before_max_ms: how far a timestamp may be behind the broker's clock, milliseconds.
        after_max_ms: how far it may be ahead of it, milliseconds.
    """

    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    needs_key: bool = False
    before_max_ms: int = _FAR
    after_max_ms: int = _FAR

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> TopicLimits:
        """Returns the limits of a topic with these settings.

        A missing setting limits nothing, except for the default size.
        """
        largest = int(settings.get("max.message.bytes", DEFAULT_MAX_MESSAGE_BYTES))
        difference = settings.get(DIFFERENCE_MAX, str(_FAR))
        own_times = settings.get("message.timestamp.type", "CreateTime") == "CreateTime"
        return cls(
            max_message_bytes=min(largest, int(settings.get("segment.bytes", largest))),
            needs_key="compact" in settings.get("cleanup.policy", ""),
            before_max_ms=int(settings.get(BEFORE_MAX, difference)) if own_times else _FAR,
            after_max_ms=int(settings.get(AFTER_MAX, difference)) if own_times else _FAR,
        )


class RecordLimits:
    """The limits of the records of several topics.

    Args:
        by_topic: the limits that are known; other topics have the broker's default size, and no other limit.
        clock: the wall clock, milliseconds. The broker goes by its own: what the two see differently it refuses.
    """

    def __init__(
        self, by_topic: Mapping[str, TopicLimits] | None = None, *, clock: Callable[[], int] = system_time_ms
    ) -> None:
        self._by_topic = dict(by_topic or {})
        self._clock = clock

    @property
    def topics(self) -> Collection[str]:
        """The topics whose limits are known."""
        return self._by_topic.keys()

    def of(self, topic: str) -> TopicLimits:
        """Returns the limits of one topic."""
        return self._by_topic.get(topic, _DEFAULT)

    def with_topic(self, topic: str, limits: TopicLimits) -> RecordLimits:
        """Returns these limits with those of a further topic."""
        return RecordLimits({**self._by_topic, topic: limits}, clock=self._clock)

    @property
    def smallest(self) -> int:
        """The smallest size limit, bytes, at most the default: no batch may be larger, whichever topic it is for."""
        return min((DEFAULT_MAX_MESSAGE_BYTES, *self._sizes()))

    @property
    def largest(self) -> int:
        """The largest size limit, bytes, at least the default: no record is larger."""
        return max((DEFAULT_MAX_MESSAGE_BYTES, *self._sizes()))

    def check(
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        headers: Sequence[Headers | None] | None = None,
        timestamps: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Raises the error of the first record that the topic would refuse, if there is one.

        Raises:
            RecordRefusedError: names the topic, the record's row in the batch, its key, what is wrong with it and the
                setting.
        """
        for _, error in self.refused(topic, keys, values, headers, timestamps):
            raise error

    def refused(
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        headers: Sequence[Headers | None] | None = None,
        timestamps: npt.NDArray[np.int64] | None = None,
    ) -> list[Refusal]:
        """Returns the records that the topic would refuse, each once, by their rows.

        Args:
            topic: the topic.
            keys: key bytes or ``None``.
            values: value bytes or ``None``; sizes are those before compression.
            headers: for each record a list of headers or ``None``; ``None`` for no headers at all.
            timestamps: milliseconds; ``None`` checks none.
        """
        limits = self.of(topic)
        found: dict[int, RecordRefusedError] = dict(_too_large(topic, keys, values, headers, limits.max_message_bytes))
        if limits.needs_key and None in keys:
            for row, key in enumerate(keys):
                if key is None:
                    found.setdefault(row, _without_key(topic, row))
        if timestamps is not None and len(timestamps):
            for row, error in _out_of_range(topic, keys, timestamps, limits, self._clock()):
                found.setdefault(row, error)
        return sorted(found.items())

    def _sizes(self) -> list[int]:
        return [limits.max_message_bytes for limits in self._by_topic.values()]


_DEFAULT = TopicLimits()


def _too_large(
    topic: str,
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    headers: Sequence[Headers | None] | None,
    limit: int,
) -> list[Refusal]:
    if headers is None and _longest(keys) + _longest(values) + _OVERHEAD <= limit:
        return []
    found: list[Refusal] = []
    for row, (key, value) in enumerate(zip(keys, values, strict=True)):
        size = len(key or b"") + len(value or b"") + _OVERHEAD
        for name, content in (headers[row] or ()) if headers is not None else ():
            size += len(name.encode()) + len(content or b"") + _HEADER_OVERHEAD
        if size > limit:
            error = RecordTooLargeError(
                f"Record {row} of the batch for topic {topic} has {size} bytes (key {(key or b'')[:64]!r}); "
                f"the topic takes {limit}.",
                remedy=f"raise max.message.bytes of {topic}, or keep the value smaller",
            )
            found.append((row, error))
    return found


def _without_key(topic: str, row: int) -> RecordRefusedError:
    return RecordRefusedError(
        f"Record {row} of the batch for topic {topic} has no key, and the topic's cleanup.policy is compact.",
        remedy=f"give the record a key, or set cleanup.policy of {topic} to delete",
    )


def _out_of_range(
    topic: str, keys: Sequence[bytes | None], timestamps: npt.NDArray[np.int64], limits: TopicLimits, now_ms: int
) -> list[Refusal]:
    earliest = max(now_ms - limits.before_max_ms, -_FAR)
    latest = min(now_ms + limits.after_max_ms, _FAR)
    if timestamps.min() >= earliest and timestamps.max() <= latest:
        return []
    outside = ((timestamps < earliest) | (timestamps > latest)) & (timestamps != NO_TIMESTAMP)
    found: list[Refusal] = []
    for row in np.flatnonzero(outside).tolist():
        timestamp = int(timestamps[row])
        ahead = timestamp > latest
        setting, limit = (AFTER_MAX, limits.after_max_ms) if ahead else (BEFORE_MAX, limits.before_max_ms)
        error = InvalidTimestampError(
            f"Record {row} of the batch for topic {topic} (key {(keys[row] or b'')[:64]!r}) has the timestamp "
            f"{timestamp}, which is {abs(timestamp - now_ms)} ms {'ahead of' if ahead else 'behind'} the clock; "
            f"{setting} of the topic is {limit}.",
            remedy=f"raise {setting} of {topic}, or correct the timestamp (a timestamp extractor)",
        )
        found.append((row, error))
    return found


def _longest(column: Sequence[bytes | None]) -> int:
    try:
        return max(map(len, column), default=0)  # type: ignore[arg-type]
    except TypeError:
        return max((len(each) for each in column if each is not None), default=0)
