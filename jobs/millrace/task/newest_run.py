"""The check that a task belongs to the newest run of its application, and errors that a newer run explains.

Taking a transactional id over fences whoever has it, also a newer attempt: so a task of a driver that was replaced must
not even begin to. And what such a task finds (a range that is gone, offsets that moved, stores that are ahead) is what
its successor has done, not damage.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from millrace.errors import DriverFencedError, MillraceError, TaskMigratedError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.driver_records import RECENT_S, fenced, newest_driver
from millrace.kafka.offsets import committed_offsets
from millrace.task.spec import TaskSpec
from millrace.topology.topic_partition import TopicPartition

_HEARTBEATS = 3
"""Number of heartbeat intervals within which a live driver has published."""

_log = structlog.get_logger(__name__)


def check_newest_run(spec: TaskSpec) -> None:
    """Checks in the status topic that the task's driver is the newest one.

    Args:
        spec: the task; one without a driver is not asked for.

    Raises:
        DriverFencedError: a newer driver has taken over.
        BrokerUnavailableError: no broker answered in time.
    """
    if not spec.part.driver_epoch:
        return
    config = spec.config
    newest = newest_driver(
        config.bootstrap_servers,
        config.application_id,
        client_settings=config.client_settings("admin."),
        recent_s=max(RECENT_S, _HEARTBEATS * config.heartbeat_interval_ms / 1000),
    )
    if newest is not None and newest.replaces(epoch=spec.part.driver_epoch, run=spec.part.driver_run):
        raise fenced(config.application_id, epoch=spec.part.driver_epoch, by=newest, task=spec.name)


def explain_by_newer_run(
    admin: KafkaAdmin, spec: TaskSpec, known: Mapping[TopicPartition, int], error: MillraceError
) -> None:
    """Checks whether another attempt has caused an error, before the task reports that input or state is gone.

    Args:
        admin: the cluster.
        spec: the task.
        known: committed offsets as the task knows them.
        error: what it is about to say.

    Raises:
        DriverFencedError: a newer driver has taken over.
        TaskMigratedError: the committed offsets are others than the task knows: it starts again at those.
    """
    try:
        check_newest_run(spec)
        committed = committed_offsets(admin, spec.config.application_id, spec.inputs, stable=False)
    except MillraceError as other:
        if isinstance(other, DriverFencedError):
            raise other from error
        _log.warning("not known whether another attempt is the cause", task=spec.name, problem=other.message)
        return
    moved = {
        topic_partition: (offset, committed[topic_partition].offset)
        for topic_partition, offset in known.items()
        if topic_partition in committed and committed[topic_partition].offset != offset
    }
    if moved:
        raise TaskMigratedError(
            f"Another attempt at task {spec.name} has committed meanwhile: "
            + ", ".join(
                f"{topic}-{partition} is at {now} and was at {before}"
                for (topic, partition), (before, now) in moved.items()
            )
            + f"; this one met: {error.message}",
            remedy="none needed: the task goes on at the committed offsets",
        ) from error
