"""The operations of a query on the topics of its sub-topology, for both engines."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import structlog

from millrace.errors import GROWN_INPUT_REMEDY, DriverFencedError, MillraceError, OperationError, StateError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import committed_offsets
from millrace.spark.plan import QueryPlan
from millrace.topology.topic_partition import TopicPartition

_log = structlog.get_logger(__name__)


def read_committed(admin: KafkaAdmin, plan: QueryPlan, *, stable: bool = True) -> dict[TopicPartition, int]:
    """Returns the committed offset of each input partition of a sub-topology.

    Args:
        admin: an administrator of the cluster.
        plan: what the query runs.
        stable: wait while a transaction is open that carries offsets.

    Raises:
        StateError: a partition has none.
        OpenTransactionError: a transaction with offsets stayed open.
        MillraceError: the broker could not be asked.
    """
    config = plan.config
    topic_partitions = [
        topic_partition for partition in range(plan.tasks) for topic_partition in plan.inputs_of(partition)
    ]
    found = committed_offsets(admin, config.application_id, topic_partitions, stable=stable)
    missing = [topic_partition for topic_partition in topic_partitions if topic_partition not in found]
    if missing:
        raise StateError(
            f"Group {config.application_id} has no committed offset for "
            + ", ".join(f"{topic}-{partition}" for topic, partition in missing)
            + ".",
            remedy="start the application again: the driver decides where new partitions begin",
        )
    return {topic_partition: commit.offset for topic_partition, commit in found.items()}


def check_new_partitions(name: str, plan: QueryPlan, new: Sequence[TopicPartition]) -> None:
    """Raises an error if the input has partitions that the plan does not contain.

    Args:
        name: of the query, for the message.
        plan: what it runs.
        new: the partitions.

    Raises:
        StateError: the sub-topology has stores, which are divided by the old number of partitions.
        OperationError: it has none: the query has to be started again, by a plan for the new number.
    """
    if not new:
        return
    names = ", ".join(f"{topic}-{partition}" for topic, partition in new)
    if plan.sub_topology.stores:
        raise StateError(
            f"The input of {name} has new partitions ({names}), but its state is divided into "
            f"{plan.tasks} tasks: their keys would meet the wrong stores.",
            remedy=GROWN_INPUT_REMEDY,
        )
    raise OperationError(
        f"The input of {name} has new partitions ({names}).",
        remedy="none needed: the query starts again and reads them from their first record",
    )


class RepartitionPurge:
    """The purge that regularly deletes processed records from the repartition topics of a sub-topology.

    Args:
        admin: an administrator of the cluster.
        plan: what the query runs.
        before: called before records are deleted; raises unless the broker has just confirmed that the driver is the
            newest. One that slept while it was replaced must not: the offsets that it knows may be those of topics
            that were reset, or restored, meanwhile.
    """

    def __init__(self, admin: KafkaAdmin, plan: QueryPlan, before: Callable[[], None]) -> None:
        self._admin = admin
        self._topics = plan.repartition_topics
        self._interval_s = plan.config.repartition_purge_interval_ms / 1000
        self._before = before
        self.purged: dict[TopicPartition, int] = {}
        """Up to where the records of each partition were deleted."""
        self._purged_at = time.monotonic()
        self._log = _log.bind(application=plan.config.application_id, sub_topology=plan.sub_topology.number)

    def is_due(self, now: float) -> bool:
        """Returns whether the interval has passed. The time is that of the monotonic clock."""
        return bool(self._topics) and now - self._purged_at >= self._interval_s

    def run(self, committed: Mapping[TopicPartition, int], now: float) -> None:
        """Deletes the records before the committed offsets.

        Raises:
            DriverFencedError: a newer driver has taken over.
        """
        self._purged_at = now
        done = {
            topic_partition: offset
            for topic_partition, offset in committed.items()
            if topic_partition[0] in self._topics and offset > self.purged.get(topic_partition, 0)
        }
        if not done:
            return
        try:
            self._before()
            self._admin.delete_records(done)
            self.purged.update(done)
        except DriverFencedError:
            raise
        except MillraceError as error:
            self._log.warning("repartition topics not purged", problem=error.message)
