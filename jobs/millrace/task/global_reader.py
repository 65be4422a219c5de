"""The reader of a global store's topic, which stays open between batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from millrace.config import StreamsConfig
from millrace.errors import OffsetOutOfRangeError
from millrace.kafka.columns import BEGINNING, PartitionColumns, ReaderSettings, open_reader
from millrace.task.input import InputBatch
from millrace.task.messages import input_rows

BATCH_RECORDS = 20_000
_POLL_S = 0.1
_FETCH_WAIT_MS = 100


@dataclass(frozen=True)
class GlobalRows:
    """The rows read from a global topic.

    Args:
        batch: committed records, by partition in the order of their offsets.
        positions: by partition the offset up to which nothing is missing; partitions of which nothing is known are
            left out.
    """

    batch: InputBatch
    positions: Mapping[int, int]


class GlobalTopicReader(Protocol):
    """A reader of a global topic."""

    def read(self, ends: Mapping[int, int]) -> GlobalRows:
        """Returns the committed records before each partition's end offset that were not read yet.

        Waits a moment where there are none. Records at and behind the ends are kept for a later call.

        Raises:
            OffsetOutOfRangeError: the next offset to read is not in the log any more.
            MillraceError: the broker refuses.
        """

    def close(self) -> None:
        """Closes the reader."""


class BrokerTopicReader:
    """The :class:`GlobalTopicReader` that reads from the broker.

    Args:
        config: the application's configuration.
        topic: the topic.
        starts: for each partition the next offset to read, ``None`` for the begin of its log.
    """

    def __init__(self, config: StreamsConfig, topic: str, starts: Mapping[int, int | None]) -> None:
        self._topic = topic
        self._buffered: dict[int, list[PartitionColumns]] = {partition: [] for partition in starts}
        self._reached: dict[int, int] = {}
        self._reader = open_reader(
            ReaderSettings(
                bootstrap_servers=config.bootstrap_servers,
                # The application's group has no say in a global topic: only its name is used.
                group=config.application_id,
                settings=config.client_settings("consumer."),
                fetch_wait_ms=_FETCH_WAIT_MS,
            )
        )
        self._reader.assign(
            {(topic, partition): BEGINNING if start is None else start for partition, start in starts.items()}
        )

    def read(self, ends: Mapping[int, int]) -> GlobalRows:
        """Returns the committed records before each partition's end offset."""
        if any(self._reached.get(partition, -1) < end for partition, end in ends.items()):
            self._poll()
        wanted: list[PartitionColumns] = []
        for partition, end in ends.items():
            buffered, self._buffered[partition] = self._buffered[partition], []
            for part in buffered:
                wanted.append(part.before(end))
                if len(wanted[-1]) < len(part):
                    self._buffered[partition].append(part.since(end))
        positions = {
            partition: min(end, self._reached[partition])
            for partition, end in ends.items()
            if partition in self._reached
        }
        return GlobalRows(input_rows(wanted, (self._topic,)), positions)

    def close(self) -> None:
        """Closes the reader."""
        self._reader.close()

    def _poll(self) -> None:
        try:
            news = self._reader.poll(_POLL_S, BATCH_RECORDS)
        except OffsetOutOfRangeError as error:
            raise OffsetOutOfRangeError(
                f"Global topic {self._topic}: the next offset is not in the log any more: {error.message}",
                remedy="none needed: the global store is built again from what the topic has",
            ) from error
        for part in news:
            self._buffered[part.partition].append(part)
            self._reached[part.partition] = part.position
