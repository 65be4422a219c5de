"""Readers of a changelog on the broker: committed records only, from an offset that must exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from millrace.config import LOGIN_PREFIXES
from millrace.errors import OffsetOutOfRangeError, StateError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.columns import PartitionColumns, PartitionReader, ReaderSettings, open_reader
from millrace.kafka.offsets import End, begin_offsets, end_offsets

READ_RECORDS = 20_000
"""Most records that are taken from the client at once, and are then sorted and written at once. The more, the nearer is
the next key in RocksDB's write buffer: writing takes 0.66 microseconds a record with 5,000, and 0.33 with 20,000. With
more than that, sorting takes what writing saves."""

REQUEST_TIMEOUT_S = 30.0
_POLL_S = 1.0
_CONNECTION_PREFIXES = (*LOGIN_PREFIXES, "bootstrap.", "reconnect.", "socket.", "client.")

GROUP = "millrace-restore"
_FETCH_WAIT_MS = 20


class ChangelogReader(Protocol):
    """A reader of a changelog, as a restoration needs it."""

    def log_range(self) -> tuple[int, int]:
        """Returns the first offset of the log, and its end including open transactions.

        Raises:
            StateError: the topic or partition does not exist.
        """

    def start(self, offset: int) -> None:
        """Begins to read at ``offset``."""

    def read(self) -> Sequence[PartitionColumns]:
        """Returns the next records and positions; waits about a second for the first.

        Raises:
            OffsetOutOfRangeError: the log does not have the next offset any more.
            MillraceError: the broker refuses.
        """

    @property
    def trouble(self) -> str:
        """The reason why no records may come at present; empty if there is none."""

    def close(self) -> None:
        """Stops reading."""


def admin_beside_consumer(bootstrap_servers: str, settings: Mapping[str, str] | None) -> KafkaAdmin:
    """Returns an administrator of the cluster from which a consumer reads, with the consumer's connection settings.

    Args:
        bootstrap_servers: comma-separated ``host:port``.
        settings: of the consumer; those that have nothing to do with the connection are left out.
    """
    connecting = {key: value for key, value in (settings or {}).items() if key.startswith(_CONNECTION_PREFIXES)}
    return KafkaAdmin(bootstrap_servers, settings=connecting, timeout_s=REQUEST_TIMEOUT_S)


def changelog_settings(bootstrap_servers: str, settings: Mapping[str, str] | None) -> ReaderSettings:
    """Returns the settings of a reader of changelogs.

    Args:
        bootstrap_servers: comma-separated ``host:port``.
        settings: client settings of the user (``consumer.*``), without their prefix.
    """
    return ReaderSettings(
        bootstrap_servers=bootstrap_servers, group=GROUP, settings=settings or {}, fetch_wait_ms=_FETCH_WAIT_MS
    )


class BrokerChangelogReader:
    """A :class:`ChangelogReader` of the broker, for committed records.

    Args:
        topic: the changelog topic.
        partition: the partition.
        bootstrap_servers: comma-separated ``host:port``.
        settings: settings of the client that the user passes on (``consumer.*``), without their prefix. Those that
            a correct restoration needs cannot be changed.
    """

    def __init__(
        self, topic: str, partition: int, *, bootstrap_servers: str, settings: Mapping[str, str] | None = None
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._bootstrap_servers = bootstrap_servers
        self._admin = admin_beside_consumer(bootstrap_servers, settings)
        self._reader: PartitionReader = open_reader(changelog_settings(bootstrap_servers, settings))

    def log_range(self) -> tuple[int, int]:
        """Returns the first offset of the log and its end."""
        description = self._admin.describe_topics([self._topic]).get(self._topic)
        if description is None or description.partitions <= self._partition:
            raise StateError(
                f"Changelog topic {self._topic} has no partition {self._partition} at {self._bootstrap_servers}.",
                remedy="if the topic was deleted on purpose, reset the application; otherwise bring it back",
            )
        topic_partition = (self._topic, self._partition)
        # The last stable offset would hide what was committed behind the first open transaction.
        ends = end_offsets(self._admin, [topic_partition], End.HIGH_WATERMARK)
        return begin_offsets(self._admin, [topic_partition])[topic_partition], ends[topic_partition]

    def start(self, offset: int) -> None:
        """Begins to read at ``offset``."""
        self._reader.assign({(self._topic, self._partition): offset})

    def read(self) -> Sequence[PartitionColumns]:
        """Returns the next records and positions."""
        return self._reader.poll(_POLL_S, READ_RECORDS)

    @property
    def trouble(self) -> str:
        """The reason why no records may come at present; empty if there is none."""
        return self._reader.trouble

    def close(self) -> None:
        """Stops reading."""
        self._reader.close()


def lost_offset(error: OffsetOutOfRangeError, where: str) -> StateError:
    """Returns the error for a reader of a log that has lost the next offset.

    Args:
        error: what the reader says.
        where: the log, as a message names it.
    """
    return StateError(
        f"The {where} lost records while it was read: {error.message}",
        remedy="wipe the store and restore it whole",
    )
