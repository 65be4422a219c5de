"""The plan of an application under an expected load: internal topics, disk, transactions, recovery. It asks no broker.

The estimates are upper ones: every record counts as passing every operator and giving one result, so filters and a
lower number of keys make the real application smaller. The formulas are those of :mod:`millrace.sizing`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from millrace.config import ProcessingEngine, ProcessingGuarantee, StreamsConfig
from millrace.dsl.loading import load_topology
from millrace.errors import ConfigurationError
from millrace.insight.plan_stores import (
    PlannedStore,
    PlannedTopic,
    plan_global_stores,
    plan_repartition_topics,
    plan_stores,
)
from millrace.insight.plan_traffic import ExpectedLoad, Traffic
from millrace.install.spec import ApplicationSpec
from millrace.sizing import (
    TRANSACTION_S,
    EosOverhead,
    RecoveryTime,
    calculate_eos_overhead,
    distinct_keys,
    estimate_recovery_time,
)
from millrace.spark.engine import engine_of
from millrace.topology.layout import TopologyLayout
from millrace.topology.parts import SubTopology
from millrace.topology.source_topics import with_matched_topics
from millrace.topology.stores import StoreBackend
from millrace.topology.topology import FrozenTopology

BATCH_FLOOR_S = {ProcessingEngine.STREAM_THREADS: TRANSACTION_S, ProcessingEngine.MICRO_BATCHES: 0.4}
"""Shortest time between two commits of a task, seconds: shorter intervals are not reached. Measured on two cores."""

DRIVER_START_S = 14.0
"""From the launch of a driver to its first batch, seconds. Measured on two cores."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of what an application will need.

    Args:
        application: its id.
        load: the load that it was planned for.
        tasks: tasks of each sub-topology, by its number.
        topics: internal topics, those that the application creates.
        stores: state stores.
        processing_guarantee: of the configuration.
        commit_interval_s: time between two commits of a task, seconds.
        eos: overhead of transactions, ``None`` for ``at_least_once``.
        recovery: after the loss of all local state.
        recovery_with_standby: the same where standby copies are there.
    """

    application: str
    load: ExpectedLoad
    tasks: Mapping[int, int]
    topics: tuple[PlannedTopic, ...]
    stores: tuple[PlannedStore, ...]
    processing_guarantee: ProcessingGuarantee
    commit_interval_s: float
    eos: EosOverhead | None
    recovery: RecoveryTime
    recovery_with_standby: RecoveryTime

    @property
    def store_disk_bytes(self) -> float:
        """Disk for all stores that are on disk, over all hosts."""
        return sum(
            store.size.disk_bytes * store.copies for store in self.stores if store.backend is StoreBackend.ROCKSDB
        )

    @property
    def topic_disk_bytes(self) -> float:
        """Disk for one replica of all internal topics, over all brokers."""
        return sum(topic.size.largest_bytes for topic in self.topics)

    def document(self) -> dict[str, Any]:
        """Returns the plan as JSON-compatible data.

        Sizes are in bytes and times in seconds, where the name does not say otherwise.
        """
        data = dataclasses.asdict(self)
        data["tasks"] = {str(number): count for number, count in self.tasks.items()}
        return {**data, "store_disk_bytes": self.store_disk_bytes, "topic_disk_bytes": self.topic_disk_bytes}


def plan(spec: ApplicationSpec, load: ExpectedLoad, *, partitions: Mapping[str, int] | None = None) -> Plan:
    """Returns the plan of the application under a load.

    Args:
        spec: its specification; the topics that it declares say how many partitions inputs and outputs have, and what
            patterns match.
        load: what is expected.
        partitions: partitions of topics that the specification does not declare; they win over it.

    Raises:
        ConfigurationError: the partitions of an input topic are not known, a topic is given that the application does
            not use, or the module cannot be imported.
        TopologyError: the topology cannot be built, or topics that are joined have different numbers of partitions.
    """
    config = spec.streams_config()
    named = {topic.name for topic in spec.topics} | set(partitions or {})
    topology = with_matched_topics(load_topology(spec.module, config), named, config.application_id)
    known = _partitions(spec, topology, partitions or {})
    traffic = Traffic(topology, load, known)
    tasks = TopologyLayout.over_inputs(topology, config.application_id, known).task_counts
    engine = engine_of(config, topology)
    interval_s = max(config.commit_interval_ms_of(engine) / 1000, BATCH_FLOOR_S[engine])
    stores, changelogs = plan_stores(topology, config, traffic, tasks=tasks, commit_interval_s=interval_s)
    stores += plan_global_stores(topology, traffic, copies=spec.launcher.parallelism)
    topics = (*plan_repartition_topics(topology, config, traffic), *changelogs)
    recovery, with_standby = (
        _recovery(spec, config, load, stores, tasks=tasks, standby=standby) for standby in (False, True)
    )
    exactly_once = config.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2
    return Plan(
        application=config.application_id,
        load=load,
        tasks=tasks,
        topics=topics,
        stores=stores,
        processing_guarantee=config.processing_guarantee,
        commit_interval_s=interval_s,
        eos=_eos(topology, traffic, stores, tasks=tasks, interval_s=interval_s) if exactly_once else None,
        recovery=recovery,
        recovery_with_standby=with_standby,
    )


def _partitions(spec: ApplicationSpec, topology: FrozenTopology, given: Mapping[str, int]) -> dict[str, int]:
    """Partitions of the topics outside of the application, as far as they are known; of its inputs, all."""
    inputs, outputs = topology.external_inputs, topology.external_outputs
    unused = sorted(set(given) - inputs - outputs)
    if unused:
        raise ConfigurationError(
            f"The application {spec.name} neither reads nor writes {', '.join(unused)}.",
            remedy=f"name one of its topics: {', '.join(sorted(inputs | outputs))}",
        )
    known = {**{topic.name: topic.partitions for topic in spec.topics}, **given}
    # Every copy of a global table has all partitions of its topic, however many there are.
    missing = sorted(inputs - topology.global_topics - known.keys())
    if missing:
        raise ConfigurationError(
            f"The number of partitions of these input topics is not known: {', '.join(missing)}.",
            remedy=f"declare them under `topics` in the specification, or give --partitions {missing[0]}=N",
        )
    return {topic: known[topic] for topic in sorted(inputs | outputs) if topic in known}


def _eos(
    topology: FrozenTopology,
    traffic: Traffic,
    stores: tuple[PlannedStore, ...],
    *,
    tasks: Mapping[int, int],
    interval_s: float,
) -> EosOverhead:
    count = sum(tasks.values())
    written = sum(
        _partitions_written(part, traffic, stores, tasks=tasks[part.number], interval_s=interval_s) * tasks[part.number]
        for part in topology.sub_topologies
    )
    logged = sum(store.changelog_bytes_per_second for store in stores if store.creates_changelog)
    sent = sum(traffic.bytes_into(sink.name) for part in topology.sub_topologies for sink in part.sinks)
    return calculate_eos_overhead(
        tasks=count,
        partitions_per_transaction=written / count,
        commit_interval_s=interval_s,
        bytes_per_second=logged + sent,
    )


def _partitions_written(
    part: SubTopology, traffic: Traffic, stores: tuple[PlannedStore, ...], *, tasks: int, interval_s: float
) -> float:
    """Partitions that one task of a sub-topology writes to in one transaction: its changelogs, and those of its sinks
    that are met by at least one record."""
    changelogs = sum(store.creates_changelog for store in stores if store.sub_topology == part.number)
    return changelogs + sum(
        distinct_keys(
            traffic.records_into(sink.name) / tasks * interval_s,
            tasks if sink.topic is None else traffic.partitions_of(sink.topic, otherwise=tasks),
        )
        for sink in part.sinks
    )


def _recovery(
    spec: ApplicationSpec,
    config: StreamsConfig,
    load: ExpectedLoad,
    stores: tuple[PlannedStore, ...],
    *,
    tasks: Mapping[int, int],
    standby: bool,
) -> RecoveryTime:
    restored = [store for store in stores if store.changelog is not None]
    numbers = {store.sub_topology for store in restored}
    # The copies of a global store are read beside the tasks' stores.
    copies = sum(store.copies for store in restored if store.sub_topology not in tasks)
    return estimate_recovery_time(
        changelog_bytes=sum(
            store.changelog_size.largest_bytes * store.copies for store in restored if store.changelog_size
        ),
        tasks=max(sum(tasks[number] for number in numbers if number in tasks) + copies, 1),
        restore_threads=config.restore_threads,
        standby=standby,
        update_bytes_per_s=sum(store.changelog_bytes_per_second for store in restored),
        standby_lag_s=load.standby_lag_s,
        start_s=spec.health.poll_interval_s + spec.restart.initial_backoff_s + DRIVER_START_S,
        utilization=load.utilization,
    )
