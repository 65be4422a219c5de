"""The dead-letter records of an application: what lies in its topic, and what was replayed of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from millrace.errors import OperationError
from millrace.install.application import Application
from millrace.install.connection import Connection
from millrace.install.named_cluster import config_of
from millrace.kafka.offsets import begin_offsets, end_offsets
from millrace.kafka.topics import TopicDescription
from millrace.operations.dead_letters.markers import Marker, read_markers
from millrace.operations.dead_letters.reading import dead_letter_records
from millrace.operations.dead_letters.record import DeadLetterRecord
from millrace.operations.dead_letters.selection import Selection
from millrace.topology.topic_partition import TopicPartition


@dataclass(frozen=True, kw_only=True)
class ListedDeadLetterRecord:
    """A dead-letter record, and its replay where there was one."""

    record: DeadLetterRecord
    replayed: Marker | None


@dataclass(frozen=True, kw_only=True)
class DeadLetterTopic:
    """The dead-letter topic of an application.

    Args:
        application_id: whose it is; others may share the topic.
        connection: its cluster.
        topic: the topic.
    """

    application_id: str
    connection: Connection
    topic: TopicDescription

    def begins(self) -> dict[TopicPartition, int]:
        """Returns the first offset of each partition."""
        return begin_offsets(self.connection.administrator(), self.topic.topic_partitions)

    def select(self, selection: Selection) -> Iterator[ListedDeadLetterRecord]:
        """Yields the selected dead-letter records, by partition and offset within each; partitions come in no order.

        Raises:
            OperationError: a dead-letter record that was named is not there.
        """
        found: set[tuple[int, int]] = set()
        for known in self._known(self.begins()):
            if selection.has(known.record):
                found.add(known.record.position)
                yield known
        selection.check_found(found)

    def latest(self, count: int) -> list[ListedDeadLetterRecord]:
        """Returns the latest dead-letter records, without reading the whole topic, by partition and offset.

        Args:
            count: how many at most.
        """
        begins, ends = self.begins(), end_offsets(self.connection.administrator(), self.topic.topic_partitions)
        # Half of the offsets are ends of transactions where each wrote one dead-letter record, more where many were
        # aborted.
        span = 2 * count
        while True:
            starts = {
                topic_partition: max(begin, ends[topic_partition] - span) for topic_partition, begin in begins.items()
            }
            found = list(self._known(starts))
            if len(found) >= count or starts == begins:
                return _last(found, count)
            span *= 4

    def _known(self, starts: Mapping[TopicPartition, int]) -> Iterator[ListedDeadLetterRecord]:
        markers = read_markers(self.connection, self.topic.topic_id)
        for record in dead_letter_records(self.connection, starts):
            yield ListedDeadLetterRecord(record=record, replayed=markers.get(record.position))


def _last(known: Iterable[ListedDeadLetterRecord], count: int | None) -> list[ListedDeadLetterRecord]:
    """Those with the latest records, or all, by partition and offset."""
    by_time = sorted(known, key=lambda each: each.record.timestamp)
    kept = by_time if count is None else by_time[-count:]
    return sorted(kept, key=lambda each: each.record.position)


def dead_letter_topic_of(application: Application) -> DeadLetterTopic:
    """Returns the dead-letter topic of an application.

    Raises:
        ConfigurationError: it has no valid specification here.
        OperationError: it has no dead-letter topic.
        PreflightError: the topic does not exist.
    """
    config = config_of(application)
    name = config.errors_dead_letter_queue_topic_name
    if name is None:
        raise OperationError(
            f"{application} has no dead-letter topic.", remedy="set errors.dead.letter.queue.topic.name in its config"
        )
    connection = Connection.of(config)
    return DeadLetterTopic(
        application_id=config.application_id,
        connection=connection,
        topic=connection.administrator().describe_topic(name),
    )


def list_dead_letter_records(
    application: Application, *, selection: Selection | None = None, limit: int | None = None
) -> list[ListedDeadLetterRecord]:
    """Returns the dead-letter records of an application, by partition and offset.

    Args:
        application: which.
        selection: which; by default all.
        limit: how many at most, those with the latest records.

    Raises:
        MillraceError: see :func:`dead_letter_topic_of` and :meth:`DeadLetterTopic.select`.
    """
    box, selection = dead_letter_topic_of(application), selection or Selection()
    if limit is not None and selection == Selection():
        return box.latest(limit)
    return _last(box.select(selection), limit)
