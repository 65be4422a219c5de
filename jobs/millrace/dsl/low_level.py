"""``Topology``: nodes put together by hand, named as ``org.apache.kafka.streams.Topology``."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from millrace.dsl.callables import check_callable, check_timestamp_extractor
from millrace.dsl.global_ktable import global_store_spec
from millrace.dsl.method_hints import MethodHints
from millrace.dsl.options import AutoOffsetReset
from millrace.dsl.output_topics import output_topic
from millrace.dsl.processing import check_supplier, stores_of
from millrace.dsl.stores import read_only_store_spec
from millrace.errors import TopologyError
from millrace.serdes import Serde
from millrace.topology import topology as frozen
from millrace.topology.arguments import checks_arguments
from millrace.topology.freeze import freeze_nodes
from millrace.topology.naming import check_name
from millrace.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode
from millrace.topology.operators import ProcessRecords
from millrace.topology.partitioners import Partitioner
from millrace.topology.processor_api import ProcessorSupplier
from millrace.topology.source_topics import check_topic_pattern
from millrace.topology.store_builders import StoreBuilder
from millrace.topology.stores import StoreSpec
from millrace.topology.timestamp_extractors import TimestampExtractor
from millrace.topology.topic_extractors import TopicNameExtractor


@checks_arguments
class Topology(MethodHints):
    """Sources, processors and sinks, connected by their names; each must be added behind its parents.

    :meth:`build` gives what the test driver and the launcher run. A function that an application's specification names
    may return a ``Topology`` instead of using the ``StreamsBuilder`` that it gets.

    Example::

        topology = Topology()
        topology.add_source("payments", "payments-topic", key_serde=StringSerde(), value_serde=JsonSerde())
        topology.add_processor("limit", LimitCheck, "payments")
        topology.add_state_store(Stores.key_value_store_builder(...), "limit")
        topology.add_sink("alerts", "alerts-topic", "limit", key_serde=StringSerde(), value_serde=JsonSerde())
    """

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._stores: dict[str, StoreSpec] = {}
        self._topics: set[str] = set()
        self._global_stores: dict[str, str] = {}

    def add_source(
        self,
        name: str,
        *topics: str | re.Pattern[str],
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
        offset_reset: AutoOffsetReset | str | None = None,
    ) -> Topology:
        """Reads topics.

        Args:
            name: name of the node.
            topics: at least one topic; or one compiled regular expression: all topics whose whole name it matches when
                the application starts, as in :meth:`millrace.dsl.StreamsBuilder.stream`.
            key_serde: ``None`` takes bytes as they are; the same for ``value_serde``.
            timestamp_extractor: as in :class:`millrace.dsl.Consumed`; the same for ``offset_reset``.

        Raises:
            TopologyError: the name or a topic is taken, or there is no topic.
        """
        self._check_new(name)
        pattern, names = self._pattern_of(name, topics)
        if pattern is None:
            self._check_topics(name, names)
        self._check_extractor(timestamp_extractor)
        self._topics.update(names)
        self._nodes[name] = SourceNode(
            name=name,
            topics=names,
            pattern=pattern,
            key_serde=key_serde,
            value_serde=value_serde,
            timestamp_extractor=timestamp_extractor,
            offset_reset=None if offset_reset is None else AutoOffsetReset(offset_reset).value,
        )
        return self

    def add_processor(self, name: str, supplier: ProcessorSupplier, *parent_names: str) -> Topology:
        """Hands what its parents forward to a processor.

        Args:
            name: name of the node, by which other processors forward to it.
            supplier: gives a new :class:`~millrace.topology.processor_api.Processor` at each call; picklable. Stores
                that it brings (``stores()``) are added and connected.
            parent_names: at least one source or processor.

        Raises:
            TopologyError: the name is taken, a parent is unknown or a sink, or the supplier gives one object twice.
        """
        self._check_new(name)
        check_supplier(supplier, what=f"supplier of processor {name!r}")
        self._check_parents("processor", name, parent_names)
        brought = stores_of(supplier)
        self._nodes[name] = ProcessorNode(name=name, parents=parent_names, operator=ProcessRecords(supplier))
        for builder in brought:
            self.add_state_store(builder, name)
        return self

    def add_sink(
        self,
        name: str,
        topic: str | TopicNameExtractor,
        *parent_names: str,
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
        partitioner: Partitioner | None = None,
    ) -> Topology:
        """Writes what its parents forward to a topic, or to the topic of each record; it must exist.

        Args:
            name: name of the node.
            topic: the topic, or what chooses it for each record, as in :meth:`millrace.dsl.KStream.to`.
            parent_names: at least one source or processor.
            key_serde: ``None`` takes bytes as they are; the same for ``value_serde``.
            partitioner: as in :meth:`millrace.dsl.Produced.with_stream_partitioner`; ``None`` takes the murmur2 hash of
                the key's bytes.

        Raises:
            TopologyError: the name is taken, or a parent is unknown or a sink.
        """
        self._check_new(name)
        fixed, extractor = output_topic(topic)
        self._check_parents("sink", name, parent_names)
        if partitioner is not None:
            check_callable(partitioner, 4, what="partitioner", takes="topic, key, value, partitions")
        self._nodes[name] = SinkNode(
            name=name,
            parents=parent_names,
            topic=fixed,
            key_serde=key_serde,
            value_serde=value_serde,
            partitioner=partitioner,
            extractor=extractor,
        )
        return self

    def add_state_store(self, builder: StoreBuilder, *processor_names: str) -> Topology:
        """Adds a store and connects it to processors. The same store may be added again.

        Raises:
            TopologyError: a different store has its name, or a processor is unknown.
        """
        if self._stores.get(builder.name, builder.spec) != builder.spec:
            raise TopologyError(
                f"A different store has already been added with the name {builder.name!r}.",
                remedy="give one of them another name",
            )
        self._stores[builder.name] = builder.spec
        for processor in processor_names:
            self._connect(processor, builder.name)
        return self

    def connect_processor_and_state_stores(self, processor_name: str, *store_names: str) -> Topology:
        """Connects a processor to stores that were added.

        Raises:
            TopologyError: no store is named, or the processor or a store is unknown.
        """
        if not store_names:
            raise TopologyError(f"Processor {processor_name!r} is connected to no store.", remedy="name at least one")
        for store in store_names:
            self._connect(processor_name, store)
        return self

    def add_global_store(
        self,
        builder: StoreBuilder,
        source_name: str,
        topic: str,
        processor_name: str,
        supplier: ProcessorSupplier,
        *,
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
    ) -> Topology:
        """Adds a store that a processor fills from a whole topic, in every task, for all processors to read (KIP-233).

        Args:
            builder: a key-value store without logging, since the topic restores it.
            source_name: name of the node that reads the topic.
            topic: the topic, read from its beginning.
            processor_name: name of the node that writes the store.
            supplier: gives a new :class:`~millrace.topology.processor_api.Processor` that writes the store; it cannot
                forward and schedules nothing.
            key_serde: ``None`` takes bytes as they are; the same for ``value_serde``.
            timestamp_extractor: as in :class:`millrace.dsl.Consumed`.

        Raises:
            TopologyError: a name or the topic is taken, or the store is logged or no key-value store.
        """
        self._check_new(source_name)
        self._check_new(processor_name)
        if source_name == processor_name:
            raise TopologyError(f"Source and processor of a global store are both named {source_name!r}.")
        if builder.spec.logged:
            raise TopologyError(
                f"The global store {builder.name!r} is logged, but its topic restores it.",
                remedy="use with_logging_disabled()",
            )
        if builder.name in self._stores:
            raise TopologyError(f"A different store has already been added with the name {builder.name!r}.")
        check_supplier(supplier, what=f"supplier of processor {processor_name!r}")
        self._check_topics(source_name, (topic,))
        self._check_extractor(timestamp_extractor)
        self._topics.add(topic)
        self._stores[builder.name] = global_store_spec(builder)
        self._global_stores[builder.name] = processor_name
        self._nodes[source_name] = SourceNode(
            name=source_name,
            topics=(topic,),
            key_serde=key_serde,
            value_serde=value_serde,
            timestamp_extractor=timestamp_extractor,
        )
        self._nodes[processor_name] = ProcessorNode(
            name=processor_name, parents=(source_name,), operator=ProcessRecords(supplier), stores=(builder.name,)
        )
        return self

    def add_read_only_state_store(
        self,
        builder: StoreBuilder,
        source_name: str,
        topic: str,
        processor_name: str,
        supplier: ProcessorSupplier,
        *,
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
    ) -> Topology:
        """Adds a store that a processor fills from a topic (KIP-813).

        The topic restores it, so that it has no changelog.

        Unlike a global store each task has its part of the topic, and the other inputs of the processors that the store
        is connected to (:meth:`connect_processor_and_state_stores`) must be partitioned alike. They should only read
        it: what they write is not in the topic, and lost when the store is restored. As in Kafka Streams restoring
        takes the topic's records as they are, without the processor, so that must store each record under its own key
        and with its own value; and the topic must be compacted, or keep everything.

        Args:
            builder: a key-value store. It is never logged.
            source_name: name of the node that reads the topic.
            topic: the topic, read from its beginning.
            processor_name: name of the node that writes the store.
            supplier: gives a new :class:`~millrace.topology.processor_api.Processor` that writes the store.
            key_serde: ``None`` takes bytes as they are; the same for ``value_serde``.
            timestamp_extractor: as in :class:`millrace.dsl.Consumed`.

        Raises:
            TopologyError: a name or the topic is taken, or the store is no key-value store.
        """
        spec = read_only_store_spec(builder, topic)
        if source_name == processor_name:
            raise TopologyError(f"Source and processor of a read-only store are both named {source_name!r}.")
        self._check_new(processor_name)
        if spec.name in self._stores:
            raise TopologyError(f"A different store has already been added with the name {spec.name!r}.")
        self.add_source(
            source_name,
            topic,
            key_serde=key_serde,
            value_serde=value_serde,
            timestamp_extractor=timestamp_extractor,
            offset_reset=AutoOffsetReset.EARLIEST,
        )
        self.add_processor(processor_name, supplier, source_name)
        self._stores[spec.name] = spec
        self._connect(processor_name, spec.name)
        return self

    def build(self) -> frozen.FrozenTopology:
        """Returns the topology, checked and split, as :meth:`StreamsBuilder.build` does.

        Raises:
            TopologyError: it is empty.
        """
        return freeze_nodes(self._nodes.values(), self._stores.values(), self._global_stores)

    def describe(self) -> str:
        """Returns the text that Kafka Streams' ``Topology#describe()`` gives for the same topology."""
        return self.build().describe()

    def _check_new(self, name: str) -> None:
        check_name(name, what="node")
        if name in self._nodes:
            raise TopologyError(f"Node {name!r} is already added.", remedy="give one of them another name")

    def _check_topics(self, source: str, topics: tuple[str, ...]) -> None:
        if not topics:
            raise TopologyError(f"Source {source!r} reads no topic.", remedy="name at least one topic")
        for topic in topics:
            check_name(topic, what="topic")
            if topic in self._topics or topics.count(topic) > 1:
                raise TopologyError(
                    f"Topic {topic!r} has already been registered by another source.", remedy="read each topic once"
                )

    @staticmethod
    def _pattern_of(
        source: str, topics: tuple[str | re.Pattern[str], ...]
    ) -> tuple[re.Pattern[str] | None, tuple[str, ...]]:
        patterns = [topic for topic in topics if isinstance(topic, re.Pattern)]
        if not patterns:
            return None, tuple(topic for topic in topics if not isinstance(topic, re.Pattern))
        if len(topics) > 1:
            raise TopologyError(
                f"Source {source!r} reads a pattern and something else.", remedy="give it one pattern, or names"
            )
        check_topic_pattern(patterns[0])
        return patterns[0], ()

    @staticmethod
    def _check_extractor(extractor: TimestampExtractor | None) -> None:
        if extractor is not None:
            check_timestamp_extractor(extractor)

    def _check_parents(self, what: str, name: str, parents: tuple[str, ...]) -> None:
        if not parents:
            raise TopologyError(f"The {what} {name!r} must have at least one parent.", remedy="name its parents")
        for parent in parents:
            if parent == name:
                raise TopologyError(f"Node {name!r} cannot be its own parent.")
            if parent not in self._nodes:
                raise TopologyError(
                    f"Parent {parent!r} of {name!r} is not added yet. Nodes: {', '.join(self._nodes) or 'none'}.",
                    remedy="add it first",
                )
            if parent in self._global_stores.values() or parent in self._global_sources():
                raise TopologyError(f"{parent!r} feeds a global store and cannot be a parent of {name!r}.")
            if isinstance(self._nodes[parent], SinkNode):
                raise TopologyError(f"The sink {parent!r} cannot be a parent of {name!r}.")
        if len(set(parents)) < len(parents):
            raise TopologyError(f"The {what} {name!r} names a parent twice: {', '.join(parents)}.")

    def _global_sources(self) -> set[str]:
        return {
            parent
            for processor in self._global_stores.values()
            if isinstance(node := self._nodes[processor], ProcessorNode)
            for parent in node.parents
        }

    def _connect(self, processor: str, store: str) -> None:
        if store not in self._stores:
            raise TopologyError(
                f"Store {store!r} is not added yet. Stores: {', '.join(self._stores) or 'none'}.",
                remedy="add it with add_state_store() first",
            )
        if store in self._global_stores:
            raise TopologyError(
                f"The global store {store!r} cannot be connected to {processor!r}.",
                remedy="leave it out: every processor may read it",
            )
        node: Any = self._nodes.get(processor)
        if node is None:
            raise TopologyError(
                f"Processor {processor!r} is not added yet. Nodes: {', '.join(self._nodes) or 'none'}.",
                remedy="add it first",
            )
        if not isinstance(node, ProcessorNode):
            raise TopologyError(f"Store {store!r} cannot be connected to {processor!r}, which is a source or a sink.")
        if store not in node.stores:
            self._nodes[processor] = replace(node, stores=(*node.stores, store))
