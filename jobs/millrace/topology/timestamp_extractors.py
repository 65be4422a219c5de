"""Timestamp extractors: what a record's event time is. Named as in ``org.apache.kafka.streams.processor``."""

from __future__ import annotations

import importlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millrace.callables import refuse_async
from millrace.errors import ConfigurationError, ProcessingError, TopologyError
from millrace.handlers import ConsumerRecord
from millrace.topology.arity import arguments_taken

Timestamps = npt.NDArray[np.int64]

TimestampExtractor = Callable[[Any, Any, int, int], int] | Callable[[ConsumerRecord, int], int]
"""``(key, value, record timestamp, partition time) -> timestamp``, all in milliseconds; negative drops the record.

One of two parameters is Kafka Streams' own form, ``(record, partition time)``: it sees topic, partition, offset and
headers as well. An extractor that could be called either way gets the four.

The partition time is the largest event time of the partition's records before this one, -1 before the first. What an
extractor raises stops the application, whatever the handlers say: that is how ``FailOnInvalidTimestamp`` works.
"""

_REMEDY = (
    "use another timestamp extractor (default.timestamp.extractor, or Consumed.with_timestamp_extractor for this topic)"
)


@runtime_checkable
class ColumnarTimestampExtractor(Protocol):
    """An extractor that need not be called for each record."""

    def extract_column(self, values: pa.Array | None, timestamps: Timestamps) -> Timestamps | None:
        """Returns the event times of a batch, milliseconds.

        ``on_invalid_timestamp`` is then asked about the negative ones.

        Args:
            values: the records' values; ``None`` where they are not in Arrow.
            timestamps: the records' own timestamps.

        Returns:
            An array that the caller may change, or ``None``: the extractor must be called for each record.
        """

    @property
    def on_invalid_timestamp(self) -> Callable[..., int]:
        """The event time in place of a negative one; if that is negative too, the record is dropped.

        Called with ``(key, value, timestamp, partition_time)``, or with ``(record, timestamp, partition_time)``.
        """


class ExtractRecordMetadataTimestamp(ABC):
    """The record's own timestamp; subclasses say what follows where that is negative.

    Their ``on_invalid_timestamp`` may have the parameters ``(record, timestamp, partition_time)`` instead, as in Kafka
    Streams: the record is a :class:`ConsumerRecord`, with topic, partition, offset and headers.

    Negative timestamps come from producers before Kafka 0.10 and from topics with their message format.
    """

    def __call__(self, key: Any, value: Any, timestamp: int, partition_time: int) -> int:
        """Returns the timestamp, or what :meth:`on_invalid_timestamp` makes of it."""
        return timestamp if timestamp >= 0 else self.on_invalid_timestamp(key, value, timestamp, partition_time)

    def extract_column(self, values: pa.Array | None, timestamps: Timestamps) -> Timestamps | None:
        """Returns the records' own timestamps."""
        return timestamps.copy()

    @abstractmethod
    def on_invalid_timestamp(self, key: Any, value: Any, timestamp: int, partition_time: int) -> int:
        """Returns the event time in place of a negative ``timestamp``."""


@dataclass(frozen=True)
class FailOnInvalidTimestamp(ExtractRecordMetadataTimestamp):
    """A negative timestamp stops the application. The default."""

    def on_invalid_timestamp(self, key: Any, value: Any, timestamp: int, partition_time: int) -> int:
        """Refuses the record.

        Raises:
            ProcessingError: always.
        """
        raise ProcessingError(f"the timestamp is invalid (negative): {timestamp}", remedy=_REMEDY)


@dataclass(frozen=True)
class LogAndSkipOnInvalidTimestamp(ExtractRecordMetadataTimestamp):
    """A record with a negative timestamp is dropped and counted, and goes to the dead-letter records where there are
    any."""

    def on_invalid_timestamp(self, key: Any, value: Any, timestamp: int, partition_time: int) -> int:
        """Returns ``timestamp``, which drops the record."""
        return timestamp


@dataclass(frozen=True)
class UsePartitionTimeOnInvalidTimestamp(ExtractRecordMetadataTimestamp):
    """A record with a negative timestamp takes the largest event time that its partition had so far."""

    def on_invalid_timestamp(self, key: Any, value: Any, timestamp: int, partition_time: int) -> int:
        """Returns the partition time.

        Raises:
            ProcessingError: no record of the partition had a valid timestamp yet.
        """
        if partition_time < 0:
            raise ProcessingError(
                f"the timestamp is invalid (negative): {timestamp}, and no record before it had a valid one",
                remedy=_REMEDY,
            )
        return partition_time


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class WallclockTimestampExtractor:
    """The time at which the record is processed. A batch that is processed again gets other times.

    Args:
        clock: milliseconds since the epoch.
    """

    clock: Callable[[], int] = _wall_clock_ms

    def __call__(self, key: Any, value: Any, timestamp: int, partition_time: int) -> int:
        """Returns the time now, milliseconds."""
        return self.clock()

    def extract_column(self, values: pa.Array | None, timestamps: Timestamps) -> Timestamps | None:
        """Returns the time now for the whole batch."""
        return np.full(len(timestamps), self.clock(), dtype=np.int64)

    def on_invalid_timestamp(self, key: Any, value: Any, timestamp: int, partition_time: int) -> int:
        """Returns ``timestamp``: a clock before 1970 drops the record."""
        return timestamp


BUILT_IN_EXTRACTORS: dict[str, TimestampExtractor] = {
    "FailOnInvalidTimestamp": FailOnInvalidTimestamp(),
    "LogAndSkipOnInvalidTimestamp": LogAndSkipOnInvalidTimestamp(),
    "UsePartitionTimeOnInvalidTimestamp": UsePartitionTimeOnInvalidTimestamp(),
    "WallclockTimestampExtractor": WallclockTimestampExtractor(),
}
"""What ``default.timestamp.extractor`` may name, besides ``package.module:name``."""


def takes_record(extractor: TimestampExtractor) -> bool:
    """Returns whether an extractor is called with the record and the partition time.

    Raises:
        TopologyError: it can be called neither so nor with the record's parts.
    """
    taken = arguments_taken(extractor, (2, 4), undecided=4)
    if taken is None:
        raise TopologyError(
            f"The timestamp extractor {getattr(extractor, '__qualname__', extractor)} can be called with neither (key, "
            "value, timestamp, partition_time) nor (record, partition_time).",
            remedy="give it one of these lists of parameters",
        )
    return taken == 2


def invalid_takes_record(extractor: ColumnarTimestampExtractor) -> bool:
    """Returns whether ``on_invalid_timestamp`` is called with the record, the timestamp and the partition time.

    Raises:
        TopologyError: it can be called neither so nor with the record's parts.
    """
    taken = arguments_taken(extractor.on_invalid_timestamp, (3, 4), undecided=4)
    if taken is None:
        raise TopologyError(
            f"on_invalid_timestamp of {type(extractor).__qualname__} can be called with neither (key, value, "
            "timestamp, partition_time) nor (record, timestamp, partition_time).",
            remedy="give it one of these lists of parameters",
        )
    return taken == 3


def timestamp_extractor_by_name(name: str) -> TimestampExtractor:
    """Returns the extractor that ``default.timestamp.extractor`` names.

    Args:
        name: one of :data:`BUILT_IN_EXTRACTORS`, also with Kafka Streams' package in front, or ``package.module:name``
            of a function ``(key, value, timestamp, partition_time)`` or ``(record, partition_time)``, or of a class
            whose objects are called so.

    Raises:
        ConfigurationError: there is none.
    """
    built_in = BUILT_IN_EXTRACTORS.get(name.removeprefix("org.apache.kafka.streams.processor."))
    if built_in is not None:
        return built_in
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
        extractor: Any = found() if isinstance(found, type) else found
    except Exception as error:
        raise _no_extractor(name, f"{type(error).__name__}: {error}") from error
    if not callable(extractor):
        raise _no_extractor(name, f"{extractor!r} cannot be called")
    refuse_async(extractor, what="timestamp extractor", error=ConfigurationError)
    try:
        takes_record(extractor)
    except TopologyError as error:
        raise _no_extractor(name, error.message) from error
    return extractor  # type: ignore[no-any-return]


def _no_extractor(name: str, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"There is no timestamp extractor {name!r}: {reason}.",
        remedy=f"set default.timestamp.extractor to one of {', '.join(BUILT_IN_EXTRACTORS)}, or to package.module:name",
    )
