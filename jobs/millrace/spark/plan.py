"""The plan of a query, by which workers run any task of its sub-topology. Sent as bytes, decoded once per worker."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from pyspark import cloudpickle

from millrace.kafka.record_limits import DEFAULT_MAX_MESSAGE_BYTES
from millrace.task.spec import SubTopologySpec, TaskSpec
from millrace.topology.layout import SubTopologyLayout
from millrace.topology.parts import full_topic_name
from millrace.topology.pickling import check_picklable
from millrace.topology.topic_partition import TopicPartition

STATE_DIRECTORY_VARIABLE = "MILLRACE_STATE_DIR"
"""Where it is set for a Spark worker, its executors keep stores there, and not in ``state.dir``: for clusters whose
hosts have their disks in different places, and for several workers on one host."""


@dataclass(frozen=True, kw_only=True)
class QueryPlan(SubTopologySpec):
    """The plan of a query: a sub-topology, with the settings that workers and readers need beside the tasks' own.

    Args:
        input_partitions: number of partitions of each input topic.
        largest_input_bytes: largest record that an input topic takes.
        progress_address: ``host:port`` that takes what tasks report outside their results, as datagrams.
        offsets_retention_s: how long the broker keeps a committed offset of a group without members, seconds.
    """

    input_partitions: Mapping[str, int]
    largest_input_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    progress_address: str = ""
    offsets_retention_s: float = float("inf")

    @property
    def tasks(self) -> int:
        """Number of tasks: the number of partitions of the largest input topic."""
        return self._layout.count(self.input_partitions)

    @property
    def topics(self) -> tuple[str, ...]:
        """The input topics, sorted; rows contain a topic's index here."""
        return self._layout.inputs

    @property
    def repartition_topics(self) -> tuple[str, ...]:
        """The input topics that are repartition topics of the application."""
        return tuple(
            full_topic_name(topic, self.config.application_id, internal=True)
            for source in self.sub_topology.sources
            if source.internal
            for topic in source.topics
        )

    def inputs_of(self, partition: int) -> tuple[TopicPartition, ...]:
        """Returns the input partitions of a task."""
        return self._layout.task(partition, self.input_partitions).inputs

    @cached_property
    def _layout(self) -> SubTopologyLayout:
        return SubTopologyLayout.of(self.sub_topology, self.config.application_id)

    def task_spec(self, partition: int) -> TaskSpec:
        """Returns the specification of the task of a partition."""
        return TaskSpec(part=self, partition=partition, inputs=self.inputs_of(partition))

    def to_bytes(self) -> bytes:
        """Returns the plan, with the user's functions, as bytes for :func:`plan_from_bytes`.

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
    """The name and number of a sub-topology's query, from its plan, for the queries of both engines."""

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
        """The plan that its workers have."""
        return self._plan


@lru_cache(maxsize=16)
def plan_from_bytes(encoded: bytes) -> QueryPlan:
    """Returns the plan in ``encoded``, with this worker's state directory; each worker decodes it only once."""
    plan: QueryPlan = cloudpickle.loads(encoded)
    here = os.environ.get(STATE_DIRECTORY_VARIABLE)
    return replace(plan, config=plan.config.model_copy(update={"state_dir": here})) if here else plan
