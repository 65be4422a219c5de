"""The size of records in a topic, and the length of a compacted topic."""

from __future__ import annotations

from dataclasses import dataclass

from millrace.errors import ConfigurationError
from millrace.sizing.checks import not_negative, positive

BATCH_HEADER_BYTES = 61
"""Header of a record batch of version 2 (KIP-98)."""

SEGMENT_BYTES = 1 << 30
"""The broker's default of ``segment.bytes``."""

SEGMENT_MS = 7 * 24 * 3_600_000
"""The broker's default of ``segment.ms``: a week."""

MIN_CLEANABLE_DIRTY_RATIO = 0.5
"""The broker's default of ``min.cleanable.dirty.ratio``: the cleaner lets a log grow to twice what is live."""


def log_record_bytes(key_bytes: int, value_bytes: int, *, records_per_batch: float = 100) -> float:
    """Returns the bytes of one uncompressed record in a topic, with its part of the batch's header.

    ``varint(length) + attributes + varint(timestamp delta) + varint(offset delta) + varint(key length) + key
    + varint(value length) + value + header count``, plus 61 bytes per batch. Varints are zigzag-encoded; deltas within
    one batch are taken as those of its middle. Source: the record format of KIP-98.

    Args:
        key_bytes: length of the key.
        value_bytes: length of the value.
        records_per_batch: records that travel in one batch.

    Raises:
        ConfigurationError: a length is negative, or there is less than one record in a batch.
    """
    not_negative(key_bytes=key_bytes, value_bytes=value_bytes)
    positive(records_per_batch=records_per_batch)
    delta = _varint_bytes(int(records_per_batch) // 2)
    body = 1 + 1 + delta + _varint_bytes(key_bytes) + key_bytes + _varint_bytes(value_bytes) + value_bytes + 1
    return _varint_bytes(body) + body + BATCH_HEADER_BYTES / max(records_per_batch, 1)


def _varint_bytes(number: int) -> int:
    """Length of a zigzag varint of a number that is not negative: 7 bits a byte, one of them for the sign."""
    return max(1, -(-(2 * number).bit_length() // 7))


@dataclass(frozen=True, kw_only=True)
class LogSize:
    """The size of one replica of a topic, over all partitions.

    Args:
        live_bytes: what is left when everything superseded is removed.
        largest_bytes: what it grows to before the broker cleans up; what a whole restoration reads at worst.
    """

    live_bytes: float
    largest_bytes: float


def estimate_changelog_size(
    *,
    live_records: float,
    record_bytes: float,
    updates_per_second: float,
    partitions: int,
    retention_ms: int | None = None,
    segment_bytes: int = SEGMENT_BYTES,
    segment_ms: int = SEGMENT_MS,
    dirty_ratio: float = MIN_CLEANABLE_DIRTY_RATIO,
) -> LogSize:
    """Returns how long a compacted topic gets.

    The cleaner leaves the active segment of each partition alone, and starts on the others when ``dirty_ratio`` of it
    is superseded:
    ``largest = live / (1 - dirty_ratio) + partitions x min(segment.bytes, update bytes/s x segment.ms)``.
    Where the topic is also deleted by time, it never holds more than the updates of its retention and of one segment.
    Source: the documentation of Kafka's topic settings, and of its log compaction.

    Args:
        live_records: latest records of their keys.
        record_bytes: one record in the log, as :func:`log_record_bytes`.
        updates_per_second: records written, over all partitions.
        partitions: of the topic.
        retention_ms: ``retention.ms`` of a topic that is also deleted by time; ``None``: compacted only.
        segment_bytes: ``segment.bytes`` of the topic.
        segment_ms: ``segment.ms`` of the topic.
        dirty_ratio: ``min.cleanable.dirty.ratio`` of the topic, below 1.

    Raises:
        ConfigurationError: a number is out of its range.
    """
    not_negative(live_records=live_records, updates_per_second=updates_per_second, dirty_ratio=dirty_ratio)
    not_negative(retention_ms=retention_ms or 0)
    positive(record_bytes=record_bytes, partitions=partitions, segment_bytes=segment_bytes, segment_ms=segment_ms)
    if dirty_ratio >= 1:
        raise ConfigurationError(
            f"dirty_ratio must be below 1, not {dirty_ratio}: the topic would never be compacted.",
            remedy="give min.cleanable.dirty.ratio of the topic",
        )
    live = live_records * record_bytes
    update_bytes_per_s = updates_per_second * record_bytes
    active = partitions * min(segment_bytes, update_bytes_per_s / partitions * segment_ms / 1000)
    largest = live / (1 - dirty_ratio) + active
    if retention_ms is not None:
        kept = update_bytes_per_s * retention_ms / 1000
        live, largest = min(live, kept), min(largest, kept + active)
    return LogSize(live_bytes=live, largest_bytes=largest)
