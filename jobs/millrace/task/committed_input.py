"""The position that a task has committed: the offset of each input partition, and the signature beside them."""

from __future__ import annotations

from millrace.errors import DriverFencedError, OffsetsMovedError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import committed_offsets
from millrace.task.signature import MOVED_OFFSETS_REMEDY, Signature
from millrace.task.spec import TaskSpec
from millrace.topology.topic_partition import TopicPartition


def read_committed(admin: KafkaAdmin, spec: TaskSpec) -> tuple[dict[TopicPartition, int], Signature]:
    """Reads the offsets that a task has committed.

    Args:
        admin: the cluster.
        spec: the task.

    Returns:
        The offset of each input partition, and what the application's signature beside them says.

    Raises:
        OffsetsMovedError: an offset is missing, or was not written by the application.
        DriverFencedError: a newer run of the application has written them.
        BrokerUnavailableError: no broker answered in time.
    """
    config = spec.config
    found = committed_offsets(admin, config.application_id, spec.inputs)
    commits = {topic_partition: found[topic_partition] for topic_partition in spec.inputs if topic_partition in found}
    missing = [topic_partition for topic_partition in spec.inputs if topic_partition not in found]
    signature = Signature.of(commits)
    if missing or signature is None:
        raise OffsetsMovedError(
            f"Task {spec.name}: the committed offsets of group {config.application_id} at "
            f"{', '.join(f'{topic}-{partition}' for topic, partition in missing or spec.inputs)} are "
            f"{'missing' if missing else 'not written by this application'}.",
            remedy=MOVED_OFFSETS_REMEDY,
        )
    if signature.run > spec.part.run_id:
        # Its tasks may have other numbers than ours, so that no transactional id keeps us apart.
        raise DriverFencedError(
            f"Task {spec.name} belongs to run {spec.part.run_id} of {config.application_id}, and run "
            f"{signature.run} has its offsets.",
            remedy="nothing, if the newer run is meant; otherwise stop it and start again",
        )
    return {topic_partition: commit.offset for topic_partition, commit in commits.items()}, signature
