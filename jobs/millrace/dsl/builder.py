"""``StreamsBuilder``: where a topology starts and is built."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from millrace.config import StreamsConfig
from millrace.dsl.global_ktable import GlobalKTable, add_global_store, add_global_table
from millrace.dsl.graph import GraphBuilder
from millrace.dsl.kstream import KStream
from millrace.dsl.ktable import KTable
from millrace.dsl.method_hints import MethodHints
from millrace.dsl.options import Consumed, Materialized
from millrace.dsl.stores import key_value_store
from millrace.errors import TopologyError
from millrace.rewrites import apply_rewrites
from millrace.topology import naming
from millrace.topology.arguments import checks_arguments
from millrace.topology.default_serdes import with_default_serdes
from millrace.topology.explicit_naming import check_explicit_naming
from millrace.topology.freeze import freeze
from millrace.topology.logical import StreamInput, TableInput
from millrace.topology.processor_api import ProcessorSupplier
from millrace.topology.source_topics import check_topic_pattern
from millrace.topology.store_builders import StoreBuilder
from millrace.topology.topology import FrozenTopology

UNNAMED = {"application.id": "unnamed", "bootstrap.servers": "not-used:0"}
"""What a configuration must have and building does not need."""


@checks_arguments
class StreamsBuilder(MethodHints):
    """Collects the operators of one application.

    Example::

        builder = StreamsBuilder()
        payments = builder.stream("payments", Consumed.with_(StringSerde(), JsonSerde()))
        payments.filter(pc.field("amount") > 100).to("large-payments")
        topology = builder.build()
    """

    def __init__(self) -> None:
        self._graph = GraphBuilder()

    def stream(self, topics: str | Sequence[str] | re.Pattern[str], consumed: Consumed | None = None) -> KStream:
        """Reads the records of one or several topics as a stream.

        Args:
            topics: a topic; or several that are read alike; or a compiled regular expression: all topics whose whole
                name it matches when the application starts (KIP-105). One that is created later is read from the next
                start on, from where the offset reset says. All of them have the partitions of their tasks in common,
                as the topics of a list have.
            consumed: serdes, event time, where to start, name.

        Raises:
            TopologyError: no topic is named, one is named twice, or a name is not legal.
        """
        options = consumed or Consumed()
        pattern = topics if isinstance(topics, re.Pattern) else None
        names = () if isinstance(topics, re.Pattern) else (topics,) if isinstance(topics, str) else tuple(topics)
        if pattern is not None:
            check_topic_pattern(pattern)
        elif not names or len(set(names)) != len(names):
            raise TopologyError(f"A stream reads at least one topic, and each once, not {list(names)}.")
        for topic in names:
            naming.check_name(topic, what="topic")
        name = self._graph.new_name(naming.STREAM_SOURCE, options.name)
        self._graph.add(
            StreamInput(
                name=name,
                topics=names,
                key_serde=options.key_serde,
                value_serde=options.value_serde,
                timestamp_extractor=options.timestamp_extractor,
                offset_reset=options.offset_reset,
                pattern=pattern,
            )
        )
        return KStream(
            self._graph,
            name,
            key_serde=options.key_serde,
            value_serde=options.value_serde,
            sources=frozenset({name}),
            key_changed=False,
        )

    def table(self, topic: str, consumed: Consumed | None = None, materialized: Materialized | None = None) -> KTable:
        """Reads the records of a topic as changes of a table.

        The table is stored where it has a name or a join reads it.

        Args:
            topic: the topic; a null value deletes its key.
            consumed: serdes, event time, where to start, name. Its serdes win over those of ``materialized``.
            materialized: the store.
        """
        naming.check_name(topic, what="topic")
        store_options = materialized or Materialized()
        options = consumed or Consumed.with_(store_options.key_serde, store_options.value_serde)
        store_name = self._graph.new_store_name(f"{topic}-", store_options.name)
        suffixed = None if options.name is None else options.name + naming.TABLE_SOURCE_SUFFIX
        source_name = self._graph.new_name(naming.STREAM_SOURCE, suffixed)
        name = self._graph.new_name(naming.TABLE_SOURCE, options.name)
        self._graph.add(
            TableInput(
                name=name,
                source_name=source_name,
                topic=topic,
                store=key_value_store(
                    store_name, store_options, key_serde=options.key_serde, value_serde=options.value_serde
                ),
                store_optional=store_options.name is None,
                key_serde=options.key_serde,
                value_serde=options.value_serde,
                timestamp_extractor=options.timestamp_extractor,
                offset_reset=options.offset_reset,
            )
        )
        return KTable(
            self._graph,
            name,
            key_serde=options.key_serde,
            value_serde=options.value_serde,
            sources=frozenset({source_name}),
            store=store_name,
        )

    def add_state_store(self, builder: StoreBuilder) -> StreamsBuilder:
        """Adds a store for ``process``, ``process_values`` and ``transform_values`` to be connected to, by its name.

        Raises:
            TopologyError: a different store has its name.
        """
        self._graph.add_store(builder.spec)
        return self

    def global_table(
        self, topic: str, consumed: Consumed | None = None, materialized: Materialized | None = None
    ) -> GlobalKTable:
        """Reads a whole topic as a table that every task has, for joins by any key (KIP-99).

        The topic itself restores the table's store, so it should be compacted; it may have any number of partitions.
        Before each commit's records are processed the table is brought to the topic's end.

        Args:
            topic: the topic; a null value deletes its key, a null key is dropped and counted.
            consumed: serdes and name; as in Kafka Streams the topic is read from its beginning, and its records keep
                their timestamps, whatever the offset reset and the extractor say. Its serdes win over those of
                ``materialized``.
            materialized: the store; it is never logged.
        """
        return add_global_table(self._graph, topic, consumed, materialized)

    def add_global_store(
        self, builder: StoreBuilder, topic: str, consumed: Consumed, supplier: ProcessorSupplier
    ) -> StreamsBuilder:
        """Adds a store that a processor fills from a whole topic, in every task, for all processors to read (KIP-233).

        Args:
            builder: a key-value store; it is never logged, since the topic restores it.
            topic: the topic, read from its beginning.
            consumed: serdes and name.
            supplier: gives a new :class:`~millrace.topology.processor_api.Processor` that writes the store; it cannot
                forward and schedules nothing. Where the store is built again, all records of the topic pass through it.

        Raises:
            TopologyError: the store is no key-value store, or the supplier gives the same processor twice.
        """
        add_global_store(self._graph, builder, topic, consumed, supplier)
        return self

    def build(
        self,
        config: StreamsConfig | Mapping[str, Any] | None = None,
        *,
        rewrites: Sequence[str] | None = None,
        ensure_explicit_naming: bool | None = None,
    ) -> FrozenTopology:
        """Freezes what was collected; the builder can go on collecting.

        Args:
            config: the application's configuration, or some of its dotted keys, as ``StreamsBuilder#build(Properties)``
                takes them: ``topology.optimization``, ``ensure.explicit.internal.resource.naming`` and the default
                serdes matter here. Without it nothing is optimized.
            rewrites: names of the rewrites of :mod:`millrace.rewrites` to apply, in this order, whatever the
                configuration says. They change internal topics.
            ensure_explicit_naming: whether generated names of stores and internal topics are refused (KIP-1111),
                whatever the configuration says.

        Raises:
            ConfigurationError: the configuration is not valid.
            TopologyError: the topology is empty or contradicts itself, a rewrite is unknown, or names are missing.
        """
        if isinstance(config, Mapping):
            config = StreamsConfig.from_mapping({**UNNAMED, **config})
        if config is not None:
            rewrites = config.rewrites if rewrites is None else rewrites
            if ensure_explicit_naming is None:
                ensure_explicit_naming = config.ensure_explicit_internal_resource_naming
        graph = self._graph.graph()
        if ensure_explicit_naming:
            check_explicit_naming(graph)
        topology = freeze(apply_rewrites(graph, rewrites or ()))
        if config is not None and (config.default_key_serde, config.default_value_serde) != (None, None):
            topology = with_default_serdes(topology, config)
        return topology

    @property
    def is_empty(self) -> bool:
        """Whether nothing was collected."""
        return self._graph.is_empty
