"""The commits before the tasks start, so that each finds a signed offset for every partition it reads. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from millrace.driver.start_offsets import Origin, Start
from millrace.kafka.commit_metadata import CommitMetadata
from millrace.kafka.offsets import CommittedOffset
from millrace.task.signature import RUN, Signature
from millrace.topology.topic_partition import TopicPartition


def commits_of_new_partitions(
    tasks: Iterable[Sequence[TopicPartition]],
    starts: Mapping[TopicPartition, Start],
    committed: Mapping[TopicPartition, CommittedOffset],
    *,
    run: int,
) -> dict[TopicPartition, tuple[int, str]]:
    """Returns the commits, offset and metadata, for tasks with a partition that has no committed offset.

    Others are left out.

    What belongs to a task as a whole (the ends of its changelogs, its stream times) stands with the first of its
    partitions. A new one may come before it, so all partitions of such a task are signed again, at their offsets.

    Args:
        tasks: the input partitions of each task.
        starts: where each partition starts.
        committed: what is committed.
        run: number of this run.
    """
    commits: dict[TopicPartition, tuple[int, str]] = {}
    signatures = [Signature.of({topic_partition: commit}) for topic_partition, commit in committed.items()]
    # A reset is of the whole application: a task whose inputs it deleted has no commit that could tell of it.
    reset = max((each.reset for each in signatures if each is not None), default=0)
    for topic_partitions in tasks:
        known = [
            topic_partition
            for topic_partition in topic_partitions
            if starts[topic_partition].origin is Origin.COMMITTED
        ]
        if len(known) == len(topic_partitions):
            continue
        before = (
            Signature.of({topic_partition: committed[topic_partition] for topic_partition in known}) if known else None
        )
        # What that commit counted has been reported, or never will be: it is not this commit's.
        signature = replace(before or Signature(run=run), run=run, counts={}, reset=reset)
        texts = signature.to_metadata(
            {topic_partition: starts[topic_partition].offset for topic_partition in topic_partitions}
        )
        commits.update(
            {
                topic_partition: (starts[topic_partition].offset, texts[topic_partition])
                for topic_partition in topic_partitions
            }
        )
    return commits


def commits_of_new_run(
    commits: Mapping[TopicPartition, CommittedOffset], *, run: int
) -> dict[TopicPartition, tuple[int, str]]:
    """Returns the same offsets, signed by a new run, so that a task of an older run finds them.

    Foreign commits are left out.
    """
    signed: dict[TopicPartition, tuple[int, str]] = {}
    for topic_partition, commit in commits.items():
        metadata = CommitMetadata.decode(commit.metadata)
        if metadata is not None and RUN in metadata.values:
            renewed = CommitMetadata(metadata.partition_time, {**metadata.values, RUN: run})
            signed[topic_partition] = (commit.offset, renewed.encode())
    return signed


def number_of_run(commits: Mapping[TopicPartition, CommittedOffset], *, epoch: int) -> int:
    """Returns the number of a new run: the driver's epoch, or more if the status topic was lost."""
    signatures = [Signature.of({topic_partition: commit}) for topic_partition, commit in commits.items()]
    return max([epoch, *(signature.run + 1 for signature in signatures if signature is not None)])
