"""What a query tells its workers: how to run any task of its sub-topology. Sent as bytes, read once per worker."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from pyspark import cloudpickle

from millrace.config import StreamsConfig
from millrace.kafka.record_limits import DEFAULT_MAX_MESSAGE_BYTES, TopicLimits
from millrace.task.spec import GlobalStoreSpec, TaskSpec
from millrace.topology.layout import SubTopologyLayout
from millrace.topology.pickling import check_picklable
from millrace.topology.topic_partition import TopicPartition
from millrace.topology.topology import SubTopology, full_topic_name

STATE_DIRECTORY_VARIABLE = "MILLRACE_STATE_DIR"
"""Where it is set for a Spark worker, its executors keep stores there, and not in ``state.dir``: for clusters whose
hosts have their disks in different places, and for several workers on one host."""


@dataclass(frozen=True, kw_only=True)
class QueryPlan:
    """One sub-topology over the topics as they are now.

    Args:
        sub_topology: the nodes and stores.
        config: the application's configuration.
        run_id: number of the application's run.
        input_partitions: number of partitions of each input topic.
        topic_ids: UUID of each input topic as of the start.
        changelog_ids: UUID of each changelog topic of the sub-topology's own as of the start.
        partition_counts: partitions of every topic that the sub-topology writes to.
        topic_limits: what those topics take.
        largest_input_bytes: largest record that an input topic takes.
        tombstone_retention_ms: ``delete.retention.ms`` of each store's changelog.
        progress_address: ``host:port`` that takes what tasks report outside their results, as datagrams.
        global_stores: the global stores that the sub-topology may look up.
        offsets_retention_s: how long the broker keeps a committed offset of a group without members, seconds.
        driver_epoch: number of the driver.
        driver_run: identifies the driver's run among those of that number.
    """

    sub_topology: SubTopology
    config: StreamsConfig
    run_id: int
    input_partitions: Mapping[str, int]
    topic_ids: Mapping[str, str]
    changelog_ids: Mapping[str, str] = field(default_factory=dict)
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    topic_limits: Mapping[str, TopicLimits] = field(default_factory=dict)
    largest_input_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    tombstone_retention_ms: Mapping[str, int] = field(default_factory=dict)
    progress_address: str = ""
    offsets_retention_s: float = float("inf")
    global_stores: tuple[GlobalStoreSpec, ...] = ()
    driver_epoch: int = 0
    driver_run: str = ""

    @property
    def tasks(self) -> int:
        """Number of tasks: that of the input topic with the most partitions."""
        return self._layout.count(self.input_partitions)

    @property
    def topics(self) -> tuple[str, ...]:
        """The input topics, sorted; rows refer to them by their place here."""
        return self._layout.inputs

    @property
    def repartition_topics(self) -> tuple[str, ...]:
        """Those of the input topics that are the application's own."""
        return tuple(
            full_topic_name(topic, self.config.application_id, internal=True)
            for source in self.sub_topology.sources
            if source.internal
            for topic in source.topics
        )

    def inputs_of(self, partition: int) -> tuple[TopicPartition, ...]:
        """Input partitions of a task."""
        return self._layout.task(partition, self.input_partitions).inputs

    @cached_property
    def _layout(self) -> SubTopologyLayout:
        return SubTopologyLayout.of(self.sub_topology, self.config.application_id)

    def task_spec(self, partition: int) -> TaskSpec:
        """The task of a partition."""
        return TaskSpec(
            sub_topology=self.sub_topology,
            partition=partition,
            config=self.config,
            run_id=self.run_id,
            inputs=self.inputs_of(partition),
            topic_ids=self.topic_ids,
            changelog_ids=self.changelog_ids,
            partition_counts=self.partition_counts,
            topic_limits=self.topic_limits,
            tombstone_retention_ms=self.tombstone_retention_ms,
            global_stores=self.global_stores,
            driver_epoch=self.driver_epoch,
            driver_run=self.driver_run,
        )

    def to_bytes(self) -> bytes:
        """The plan with the user's functions, for :func:`plan_from_bytes`.

        Raises:
            TopologyError: something that the user passed cannot be sent to the workers.
        """
        try:
            encoded: bytes = cloudpickle.dumps(self)
        except Exception:
            check_picklable(self.sub_topology)
            raise
        return encoded


class SubTopologyQuery:
    """What a query of either engine says of the sub-topology that it executes."""

    _plan: QueryPlan

    @property
    def name(self) -> str:
        """``<application-id>-<sub-topology number>``."""
        return f"{self._plan.config.application_id}-{self.sub_topology}"

    @property
    def sub_topology(self) -> int:
        """Number of the sub-topology."""
        return self._plan.sub_topology.number

    @property
    def plan(self) -> QueryPlan:
        """What its workers know."""
        return self._plan


@lru_cache(maxsize=16)
def plan_from_bytes(encoded: bytes) -> QueryPlan:
    """The plan in ``encoded``, with the state directory of this worker; each worker decodes it once."""
    plan: QueryPlan = cloudpickle.loads(encoded)
    here = os.environ.get(STATE_DIRECTORY_VARIABLE)
    return replace(plan, config=plan.config.model_copy(update={"state_dir": here})) if here else plan
