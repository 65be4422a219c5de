"""The description of a task, with which a worker can run it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from millrace.config import ProcessingGuarantee, StreamsConfig
from millrace.kafka.record_limits import TopicLimits
from millrace.serdes import Serde
from millrace.state import StateDirectory
from millrace.topology.layout import task_name, task_transactional_id
from millrace.topology.parts import GlobalStore, SubTopology
from millrace.topology.topic_partition import TopicPartition


@dataclass(frozen=True, kw_only=True)
class GlobalStoreSpec:
    """A global store, with its topic as it was at the start.

    Args:
        part: the store in its topology.
        topic_id: UUID of the topic.
        partitions: number of its partitions; the driver notices when it grows.
        tombstone_retention_ms: ``delete.retention.ms`` of the topic; ``None`` where it is not compacted.
    """

    part: GlobalStore
    topic_id: str
    partitions: int
    tombstone_retention_ms: int | None = None

    @property
    def name(self) -> str:
        """The name of the store."""
        return self.part.store.name

    @property
    def origin(self) -> str:
        """The origin of the store's content: a copy with another origin is rebuilt."""
        source = self.part.source
        made_by = type(self.part.processor.operator).__name__
        return f"{self.topic_id} {_serde(source.key_serde)} {_serde(source.value_serde)} {made_by}"


@dataclass(frozen=True, kw_only=True)
class SubTopologySpec:
    """A sub-topology over the topics as they are now: the common part of its tasks' specifications.

    Args:
        sub_topology: the nodes and stores.
        config: the application's configuration.
        run_id: number of the application's run.
        topic_ids: UUID of each input topic as of the start.
        partition_counts: partitions of every topic that the sub-topology writes to.
        changelog_ids: UUID of each changelog topic of the sub-topology's own as of the start.
        topic_limits: what those topics take.
        tombstone_retention_ms: ``delete.retention.ms`` of each store's changelog.
        global_stores: the global stores that the sub-topology may look up.
        driver_epoch: number of the driver that runs the tasks; 0 without a driver: nothing replaces the tasks then.
        driver_run: identifies the driver's run among those of that number.
    """

    sub_topology: SubTopology
    config: StreamsConfig
    run_id: int
    topic_ids: Mapping[str, str]
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    changelog_ids: Mapping[str, str] = field(default_factory=dict)
    topic_limits: Mapping[str, TopicLimits] = field(default_factory=dict)
    tombstone_retention_ms: Mapping[str, int] = field(default_factory=dict)
    global_stores: tuple[GlobalStoreSpec, ...] = ()
    driver_epoch: int = 0
    driver_run: str = ""

    @property
    def global_topic_ids(self) -> dict[str, str]:
        """The UUID of each global store's topic, as of the start."""
        return {spec.part.topic: spec.topic_id for spec in self.global_stores}


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """A task, as the driver describes it to workers.

    Args:
        part: its sub-topology.
        partition: its partition.
        inputs: its input partitions.
    """

    part: SubTopologySpec
    partition: int
    inputs: tuple[TopicPartition, ...]

    @property
    def sub_topology(self) -> SubTopology:
        """The sub-topology of the task: its nodes and stores."""
        return self.part.sub_topology

    @property
    def config(self) -> StreamsConfig:
        """The application's configuration."""
        return self.part.config

    @property
    def name(self) -> str:
        """The task's name, for example ``1_3``."""
        return task_name(self.sub_topology.number, self.partition)

    @property
    def transactional_id(self) -> str | None:
        """The id that fences older attempts; ``None`` under at least once."""
        if self.config.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2:
            return task_transactional_id(self.config.application_id, self.name)
        return None

    @property
    def state_directory(self) -> Path:
        """The directory of the task's stores."""
        return StateDirectory(self.config.state_dir).task(
            self.config.application_id, self.sub_topology.number, self.partition
        )


def _serde(serde: Serde | None) -> str:
    return "none" if serde is None else type(serde).__name__
