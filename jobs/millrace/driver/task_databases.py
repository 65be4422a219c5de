"""Operations of a running driver on the databases of its tasks: copies for an audit, and compaction of their files."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millrace.driver.driver_operations import DriverOperation, TaskGate
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import committed_offsets
from millrace.task.actions import CompactDatabase, LinkDatabase

LINK_DATABASES = "link-databases"
BEGIN_COMPACTION = "begin-compaction"
PROBE_COMPACTION = "look-at-compaction"
PURGE = "purge-repartition-topics"


def link_databases(arguments: Mapping[str, Any], gate: TaskGate) -> Mapping[str, Any]:
    """Copies all databases at one moment, to ``directory`` of the arguments."""
    with gate.hold() as tasks:
        began = time.monotonic()
        answers = tasks.run(LinkDatabase(Path(arguments["directory"])))
        held_s = time.monotonic() - began
    return {"tasks": answers, "held_s": held_s}


def begin_compaction(arguments: Mapping[str, Any], gate: TaskGate) -> Mapping[str, Any]:
    """Makes all tasks begin to compact, for ``budget_s`` seconds."""
    with gate.hold() as tasks:
        return {"tasks": tasks.run(CompactDatabase(float(arguments["budget_s"])))}


def probe_compaction(arguments: Mapping[str, Any], gate: TaskGate) -> Mapping[str, Any]:  # noqa: ARG001
    """Returns the progress of each task's compaction."""
    with gate.hold() as tasks:
        return {"tasks": tasks.run(CompactDatabase())}


@dataclass(frozen=True)
class PurgeRepartitionTopics:
    """The operation that deletes the committed records of repartition topics, while no query is inside a batch.

    Args:
        admin: an administrator of the cluster.
        group: the application's group.
    """

    admin: KafkaAdmin
    group: str

    def __call__(self, arguments: Mapping[str, Any], gate: TaskGate) -> Mapping[str, Any]:
        """Purges the topics in ``topics`` of the arguments."""
        with gate.hold():
            return {"purged": purge(self.admin, self.group, arguments["topics"])}


def purge(admin: KafkaAdmin, group: str, topics: list[str]) -> dict[str, int]:
    """Deletes the records of topics up to the group's committed offsets.

    Returns:
        Where each partition begins now, as ``<topic>-<partition>``.
    """
    topic_partitions = [
        topic_partition
        for topic in admin.describe_topics(topics).values()
        for topic_partition in topic.topic_partitions
    ]
    committed = {
        topic_partition: each.offset
        for topic_partition, each in committed_offsets(admin, group, topic_partitions).items()
    }
    return {f"{topic}-{number}": offset for (topic, number), offset in sorted(admin.delete_records(committed).items())}


def database_operations(admin: KafkaAdmin, group: str) -> dict[str, DriverOperation]:
    """Returns the operations by their names."""
    return {
        LINK_DATABASES: link_databases,
        BEGIN_COMPACTION: begin_compaction,
        PROBE_COMPACTION: probe_compaction,
        PURGE: PurgeRepartitionTopics(admin, group),
    }
