"""What nobody may do to a running application's group and input topics, looked for at each heartbeat."""

from __future__ import annotations

from collections.abc import Mapping

from millrace.control.query import TopicPartition
from millrace.errors import OffsetsMovedError, StateError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import CommittedOffset, committed_offsets
from millrace.task.signature import Signature


def check_inputs(
    admin: KafkaAdmin, *, application_id: str, topic_ids: Mapping[str, str], partitions: Mapping[str, int]
) -> None:
    """Checks that the input topics are the ones that the application started with, and that its group's offsets are
    its own.

    Spark would notice neither: it knows topics by their names, and the group not at all.

    Args:
        admin: the cluster.
        application_id: the application.
        topic_ids: UUID of each input topic as of the start.
        partitions: number of partitions of each input topic as of the start.

    Raises:
        StateError: a topic was deleted, perhaps created again.
        OffsetsMovedError: somebody else committed to the group.
        MillraceError: the broker could not be asked.
    """
    found = admin.describe_topics(topic_ids)
    lost = [
        f"{name} (was {topic_id}, is {found[name].topic_id if name in found else 'gone'})"
        for name, topic_id in topic_ids.items()
        if name not in found or found[name].topic_id != topic_id
    ]
    if lost:
        raise StateError(
            f"Input topics of {application_id} were deleted while it ran: {', '.join(lost)}.",
            remedy="its offsets and state belong to the old ones: reset the application",
        )
    places = [(name, number) for name, count in partitions.items() for number in range(count)]
    moved = foreign_commits(committed_offsets(admin, application_id, places, stable=False))
    if moved:
        raise OffsetsMovedError(
            f"Somebody else committed offsets of group {application_id} while it ran: "
            + ", ".join(f"{topic}-{partition} at {offset}" for (topic, partition), offset in moved.items())
            + ".",
            remedy="find who uses the group; then restore the offsets from the mirror in the status topic, or reset "
            "the application",
        )


def foreign_commits(commits: Mapping[TopicPartition, CommittedOffset]) -> dict[TopicPartition, int]:
    """The offsets that carry no signature of Millrace."""
    return {
        place: commit.offset
        for place, commit in commits.items()
        if Signature.from_metadata({place: commit.metadata}) is None
    }
