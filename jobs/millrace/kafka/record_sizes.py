"""How large a record is for the broker, to refuse it before a whole transaction is lost over it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from millrace.errors import RecordTooLargeError

DEFAULT_MAX_MESSAGE_BYTES = 1_048_588
"""The broker's default of ``max.message.bytes``."""

# A batch of one record: 61 bytes of batch header; length, attributes, deltas and counts of the record are at most 25.
_OVERHEAD = 61 + 25
_HEADER_OVERHEAD = 10

Header = tuple[str, bytes | None]
Headers = Sequence[Header]


class SizeLimits:
    """``max.message.bytes`` of topics.

    Args:
        by_topic: the limits that are known; other topics have the broker's default.
    """

    def __init__(self, by_topic: Mapping[str, int] | None = None) -> None:
        self._by_topic = dict(by_topic or {})

    @property
    def topics(self) -> Collection[str]:
        """Those whose limits are known."""
        return self._by_topic.keys()

    def of(self, topic: str) -> int:
        """Limit of one topic, bytes."""
        return self._by_topic.get(topic, DEFAULT_MAX_MESSAGE_BYTES)

    def with_topic(self, topic: str, max_message_bytes: int) -> SizeLimits:
        """The same limits, and that of a further topic."""
        return SizeLimits({**self._by_topic, topic: max_message_bytes})

    @property
    def smallest(self) -> int:
        """The least of all limits, at most the default: no batch may be larger, whatever topic it is for."""
        return min(DEFAULT_MAX_MESSAGE_BYTES, *self._by_topic.values(), DEFAULT_MAX_MESSAGE_BYTES)

    @property
    def largest(self) -> int:
        """The greatest of all limits, at least the default: no record is larger."""
        return max(DEFAULT_MAX_MESSAGE_BYTES, *self._by_topic.values(), DEFAULT_MAX_MESSAGE_BYTES)

    def check(
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        headers: Sequence[Headers | None] | None,
    ) -> None:
        """Refuse records that the topic would refuse, by their uncompressed size.

        Raises:
            RecordTooLargeError: names the topic, the record's place in the batch, its key, size and limit.
        """
        for _, error in self.too_large(topic, keys, values, headers):
            raise error

    def too_large(
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        headers: Sequence[Headers | None] | None,
    ) -> list[tuple[int, RecordTooLargeError]]:
        """The records that the topic would refuse, by their uncompressed size: place in the batch, and what to say."""
        limit = self.of(topic)
        if headers is None and _longest(keys) + _longest(values) + _OVERHEAD <= limit:
            return []
        found = []
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


def _longest(column: Sequence[bytes | None]) -> int:
    try:
        return max(map(len, column), default=0)  # type: ignore[arg-type]
    except TypeError:
        return max((len(each) for each in column if each is not None), default=0)
