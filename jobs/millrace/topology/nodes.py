"""The nodes of a frozen topology: sources, processors and sinks, as in ``Topology`` of Kafka Streams. Plain data."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from millrace.serdes import Serde
from millrace.topology.operators import Operator
from millrace.topology.partitioners import Partitioner
from millrace.topology.timestamp_extractors import TimestampExtractor
from millrace.topology.topic_extractors import TopicNameExtractor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True)
class SourceNode:
    """Reads topics into the sub-topology.

    Args:
        name: node name.
        topics: topic names; a repartition topic stands without its application prefix, as in ``describe()``.
        key_serde: ``None`` takes the default of the configuration; the same for ``value_serde``.
        timestamp_extractor: ``None`` takes the configuration's ``default.timestamp.extractor``; of repartition topics,
            whose timestamps the application wrote itself, the record's own timestamp.
        offset_reset: ``earliest``, ``latest`` or ``None`` (the configuration's ``auto.offset.reset``).
        frame_functions: Spark ``DataFrame -> DataFrame`` functions, run in the streaming plan before the task.
        internal: whether the topics are repartition topics.
        pattern: reads the topics whose whole name it matches (KIP-105): ``topics`` are those that the broker had when
            the application started, none before.
    """

    name: str
    topics: tuple[str, ...]
    key_serde: Serde | None = None
    value_serde: Serde | None = None
    timestamp_extractor: TimestampExtractor | None = None
    offset_reset: str | None = None
    frame_functions: tuple[Callable[[DataFrame], DataFrame], ...] = ()
    internal: bool = False
    pattern: re.Pattern[str] | None = None


@dataclass(frozen=True, kw_only=True)
class ProcessorNode:
    """Applies an operator to what its parents forward.

    Args:
        name: node name.
        parents: names of the nodes that feed it, in the order in which they were connected.
        operator: what it does.
        stores: names of the stores that it reads or writes.
        sends_old_values: its changes of a table carry the value before them, which a node below needs.
    """

    name: str
    parents: tuple[str, ...]
    operator: Operator
    stores: tuple[str, ...] = ()
    sends_old_values: bool = False


@dataclass(frozen=True, kw_only=True)
class SinkNode:
    """Writes what its parents forward to a topic.

    Args:
        name: node name.
        parents: names of the nodes that feed it.
        topic: topic name; a repartition topic stands without its application prefix. ``None`` where ``extractor``
            chooses it for each record.
        key_serde: ``None`` takes the default of the configuration; the same for ``value_serde``.
        partitioner: chooses partitions; ``None`` takes murmur2 of the key bytes.
        internal: whether the topic is a repartition topic.
        extractor: chooses the topic of each record; ``None`` where there is one topic.
    """

    name: str
    parents: tuple[str, ...]
    topic: str | None
    key_serde: Serde | None = None
    value_serde: Serde | None = None
    partitioner: Partitioner | None = None
    internal: bool = False
    extractor: TopicNameExtractor | None = None


Node = SourceNode | ProcessorNode | SinkNode


@dataclass(frozen=True, kw_only=True)
class RepartitionTopicSpec:
    """A topic between two sub-topologies.

    Args:
        name: topic name without the application prefix, ending in ``-repartition`` (``-topic`` in a foreign-key join).
        partitions: number of partitions the user asked for; ``None``: as many as the inputs of the writing
            sub-topology have at most.
    """

    name: str
    partitions: int | None = None
