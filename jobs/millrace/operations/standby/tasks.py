"""Which tasks an application has, and which of them a standby on this host copies."""

from __future__ import annotations

import socket
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from millrace.config import StreamsConfig
from millrace.driver.status import ApplicationStatus
from millrace.errors import PreflightError
from millrace.kafka.admin import KafkaAdmin
from millrace.state import StateDirectory, lock_holder
from millrace.state.standby_copy import CopiedTask, copied_stores
from millrace.topology.layout import TopologyLayout, task_name
from millrace.topology.topology import FrozenTopology

_DEFAULT_TOMBSTONE_RETENTION_MS = 86_400_000
_HEARTBEATS_OF_THE_LIVING = 3


def copied_tasks(
    config: StreamsConfig, topology: FrozenTopology, admin: KafkaAdmin, *, state_dir: Path
) -> dict[str, CopiedTask]:
    """The tasks with stores on disk that changelogs back, by name; those without changelogs yet are left out.

    Args:
        config: the application's configuration.
        topology: its topology.
        admin: the broker.
        state_dir: where the copies are.

    Raises:
        PreflightError: input topics are missing.
        BrokerUnavailableError: no broker answers.
    """
    inputs = admin.describe_topics(sorted(topology.external_inputs))
    missing = sorted(topology.external_inputs - inputs.keys())
    if missing:
        raise PreflightError(
            f"Topics of application {config.application_id} are missing: {', '.join(missing)}.",
            remedy="create them (millrace topics create)",
        )
    partitions = {name: topic.partitions for name, topic in inputs.items()}
    layout = TopologyLayout.over_inputs(topology, config.application_id, partitions)
    tasks = {}
    for part in topology.sub_topologies:
        changelogs = copied_stores(part.stores, config.application_id)
        topics = admin.describe_topics(sorted(changelogs.values()))
        if not changelogs or len(topics) < len(changelogs):
            continue
        retention_ms = min(
            int(admin.topic_settings(name).get("delete.retention.ms", _DEFAULT_TOMBSTONE_RETENTION_MS))
            for name in topics
        )
        for partition in range(min(layout.task_counts[part.number], *(topic.partitions for topic in topics.values()))):
            name = task_name(part.number, partition)
            tasks[name] = CopiedTask(
                name=name,
                partition=partition,
                directory=StateDirectory(state_dir).task(config.application_id, part.number, partition),
                stores=part.stores,
                changelogs=changelogs,
                source_topics=frozenset(store.source_topic for store in part.stores if store.source_topic),
                tombstone_retention_ms=retention_ms,
                inputs=layout.tasks[name].inputs,
            )
    return tasks


def tasks_of_this_host(status: ApplicationStatus | None) -> frozenset[str]:
    """The tasks that workers on this host run, as the application's driver says; none where it is silent."""
    if (
        status is None
        or time.time() - status.updated_at > _HEARTBEATS_OF_THE_LIVING * status.heartbeat_interval_ms / 1e3
    ):
        return frozenset()
    here = socket.gethostname()
    return frozenset(task for task, worker in status.task_hosts.items() if worker.partition("/")[0] == here)


def driver_is_alive(state_dir: Path, application_id: str) -> bool:
    """Whether a driver on this host has the application's state directory."""
    holder = lock_holder(StateDirectory(state_dir).application(application_id))
    return holder is not None and holder.is_alive()


def tasks_to_copy(
    tasks: Mapping[str, CopiedTask], *, own: Collection[str], given_up: Collection[str], driver_is_here: bool
) -> list[str]:
    """Names of the tasks that are to be copied now.

    Args:
        tasks: all tasks.
        own: those that workers on this host run.
        given_up: those that were asked back.
        driver_is_here: whether a driver runs in the standby's own state directory: what it asked back stays its own.
    """
    kept_out = {*own, *(given_up if driver_is_here else ())}
    return [name for name in tasks if name not in kept_out]
