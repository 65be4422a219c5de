"""The signature beside a task's committed offsets: it proves that they are the task's, and has its state's position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from millrace.kafka.commit_metadata import CommitMetadata
from millrace.kafka.offsets import CommittedOffset
from millrace.topology.topic_partition import TopicPartition

RUN = "millrace.run"
CHANGELOG_PREFIX = "changelog."
STREAM_TIME_PREFIX = "streamtime."
COUNT_PREFIX = "count."
OFFSET_PREFIX = "offset."
TAKEN_OVER = "millrace.taken-over"

MOVED_OFFSETS_REMEDY = (
    "find who uses the group; then put the offsets of its last status back (kafka-consumer-groups.sh --reset-offsets "
    "--from-file) and sign them with `millrace take-over`, or reset the application"
)
"""The remedy for offsets that do not carry a signature."""
RESET = "millrace.reset"


@dataclass(frozen=True, kw_only=True)
class Signature:
    """The signature of one commit of a task.

    Every partition's metadata carries the run, the partition's time and the offset that it was made for; the rest
    is with the task's first partition, since it belongs to the task. The offset distinguishes a commit of Millrace from
    one of a Kafka Streams application that found it: that one keeps metadata that it does not know.

    Args:
        run: number of the application's run that committed.
        partition_times: largest timestamp of each input partition so far, milliseconds.
        changelogs: end offset of each store's changelog once the commit is visible.
        stream_times: stream time of each windowed operator, milliseconds, by the name of its store.
        counts: what this one commit counted (records read, dropped, ...), so that a later attempt that finds the
            batch done can still report it.
        taken_over: whether the offsets are those of a Kafka Streams application, signed by ``millrace take-over``: the
            stream times are then those of the changelogs.
        reset: number of the run that a reset stands for, 0 where there was none: stores that an earlier run wrote, on
            whichever host they lie, belong to what the reset has ended. Every later commit carries it on.
    """

    run: int
    partition_times: Mapping[TopicPartition, int] = field(default_factory=dict)
    changelogs: Mapping[str, int] = field(default_factory=dict)
    stream_times: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    taken_over: bool = False
    reset: int = 0

    def to_metadata(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, str]:
        """Returns the metadata text of each input partition.

        Args:
            offsets: the offsets that are committed for the task's input partitions.
        """
        of_task = {
            **{CHANGELOG_PREFIX + name: offset for name, offset in self.changelogs.items()},
            **{STREAM_TIME_PREFIX + name: time for name, time in self.stream_times.items()},
            **{COUNT_PREFIX + name: count for name, count in self.counts.items()},
        }
        if self.taken_over:
            of_task[TAKEN_OVER] = 1
        if self.reset:
            of_task[RESET] = self.reset
        texts = {}
        for number, topic_partition in enumerate(sorted(offsets)):
            values = {
                RUN: self.run,
                OFFSET_PREFIX + topic_partition[0]: offsets[topic_partition],
                **(of_task if number == 0 else {}),
            }
            texts[topic_partition] = CommitMetadata(self.partition_times.get(topic_partition, -1), values).encode()
        return texts

    @classmethod
    def of(cls, commits: Mapping[TopicPartition, CommittedOffset]) -> Signature | None:
        """Returns the signature found in the commits of a task's partitions.

        It is ``None`` where one of them is not signed by us.
        """
        partition_times: dict[TopicPartition, int] = {}
        values: dict[str, int] = {}
        for topic_partition, commit in commits.items():
            metadata = CommitMetadata.decode(commit.metadata)
            if metadata is None or not _is_signed(metadata, topic_partition[0], commit.offset):
                return None
            partition_times[topic_partition] = metadata.partition_time
            # The part of the task stands with one partition, which is not the first any more once the task has read
            # a new topic whose name sorts before it.
            values.update(metadata.values)
        return cls(
            run=values.get(RUN, 0),
            partition_times=partition_times,
            changelogs=_with_prefix(values, CHANGELOG_PREFIX),
            stream_times=_with_prefix(values, STREAM_TIME_PREFIX),
            counts=_with_prefix(values, COUNT_PREFIX),
            taken_over=TAKEN_OVER in values,
            reset=values.get(RESET, 0),
        )


def _is_signed(metadata: CommitMetadata, topic: str, offset: int) -> bool:
    # Commits of versions before have no offset.
    return RUN in metadata.values and metadata.values.get(OFFSET_PREFIX + topic, offset) == offset


def _with_prefix(values: Mapping[str, int], prefix: str) -> dict[str, int]:
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
