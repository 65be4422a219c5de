"""The stores of a planned application, with their changelogs, and its repartition topics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from millrace.config import StreamsConfig
from millrace.insight.plan_traffic import ExpectedLoad, Traffic
from millrace.kafka.topics import TopicSpec, changelog_topic, repartition_topic
from millrace.serdes.subscriptions import COMBINED_KEY_BYTES, SUBSCRIPTION_BYTES
from millrace.sizing import (
    LogSize,
    StateSize,
    distinct_keys,
    estimate_changelog_size,
    estimate_state_size,
    log_record_bytes,
)
from millrace.sizing.logs import MIN_CLEANABLE_DIRTY_RATIO, SEGMENT_BYTES, SEGMENT_MS
from millrace.sizing.state import WINDOW_KEY_BYTES
from millrace.topology.foreign_key_join import SubscriptionReceive
from millrace.topology.operators import StreamTableJoin, TableSuppress, WindowedAggregate
from millrace.topology.parts import SubTopology
from millrace.topology.stores import StoreBackend, StoreKind, StoreSpec
from millrace.topology.summary import owners_of, written_by
from millrace.topology.topology import FrozenTopology

# In a changelog the key of a window has no segment before it.
_CHANGELOG_WINDOW_KEY_BYTES = WINDOW_KEY_BYTES - 8
_DAY_S = 86_400

# Times, offset, partition and lengths, and a topic's name of 16 letters.
BUFFERED_RECORD_BYTES = 64


@dataclass(frozen=True, kw_only=True)
class PlannedTopic:
    """An internal topic.

    Args:
        name: full name.
        purpose: ``repartition`` or ``changelog``.
        partitions: number of them.
        cleanup_policy: ``cleanup.policy``.
        retention_ms: ``retention.ms``; ``None``: nothing expires.
        size: one replica.
    """

    name: str
    purpose: str
    partitions: int
    cleanup_policy: str
    retention_ms: int | None
    size: LogSize


@dataclass(frozen=True, kw_only=True)
class PlannedStore:
    """A state store, over all tasks.

    Args:
        name: name of the store.
        sub_topology: number of its sub-topology.
        kind: shape of its keys.
        backend: disk or memory.
        size: entries and bytes.
        updates_per_second: writes to the store that its changelog gets.
        changelog: topic that restores it, ``None`` where it is not logged.
        creates_changelog: whether the application writes that topic; an input topic may serve as one.
        changelog_size: one replica of it.
        changelog_bytes_per_second: what is written to it.
        copies: whole copies on a host: of a global store each worker process has one.
    """

    name: str
    sub_topology: int
    kind: str
    backend: StoreBackend
    size: StateSize
    updates_per_second: float
    changelog: str | None
    creates_changelog: bool
    changelog_size: LogSize | None
    changelog_bytes_per_second: float
    copies: int = 1


def plan_stores(
    topology: FrozenTopology,
    config: StreamsConfig,
    traffic: Traffic,
    *,
    tasks: Mapping[int, int],
    commit_interval_s: float,
) -> tuple[tuple[PlannedStore, ...], tuple[PlannedTopic, ...]]:
    """Returns the stores, and the changelog topics that the application creates for them.

    Args:
        topology: the topology.
        config: of the application.
        traffic: what reaches each node.
        tasks: tasks of each sub-topology.
        commit_interval_s: time between two commits; a cached store writes each key once within it.
    """
    stores: list[PlannedStore] = []
    topics: list[PlannedTopic] = []
    for part in topology.sub_topologies:
        for spec in part.stores:
            store, topic = _plan_store(
                part, spec, config, traffic, tasks=tasks[part.number], interval_s=commit_interval_s
            )
            stores.append(store)
            topics += [topic] if topic is not None else []
    return tuple(stores), tuple(topics)


def _plan_store(
    part: SubTopology, spec: StoreSpec, config: StreamsConfig, traffic: Traffic, *, tasks: int, interval_s: float
) -> tuple[PlannedStore, PlannedTopic | None]:
    load = traffic.load
    owners = owners_of(part, spec.name)
    windowed = spec.retention_ms > 0
    advance_ms, windows_per_record = _windows(spec, written_by(owners[0]))
    writes = sum(traffic.records_into(owner.name) for owner in owners) * windows_per_record
    # A buffer logs the last state of a key at each commit, as a cached store does.
    cached = spec.kind is StoreKind.BUFFER or (spec.cached and config.merges_updates)
    updates = _cached(writes, load.keys * windows_per_record, tasks, interval_s) if cached else writes
    entry_key_bytes, value_bytes = _entry_bytes(load, written_by(owners[0]))
    entries, live_in_log = _kept(spec, written_by(owners[0]), load.keys, updates)
    if isinstance(written_by(owners[0]), StreamTableJoin):
        # What waits for the table is written when it comes, and deleted when it goes on.
        updates *= 2
    size = estimate_state_size(
        keys=entries,
        key_bytes=entry_key_bytes,
        value_bytes=value_bytes,
        retention=spec.retention_ms if windowed else None,
        advance=advance_ms if windowed else None,
        compression_ratio=load.compression_ratio,
    )
    topic = changelog_topic(
        spec,
        config.application_id,
        partitions=tasks,
        replication_factor=config.replication_factor,
        additional_retention_ms=config.windowstore_changelog_additional_retention_ms,
        defaults=config.client_settings("topic."),
    )
    name = spec.changelog_topic(config.application_id)
    key_bytes = entry_key_bytes + (_CHANGELOG_WINDOW_KEY_BYTES if windowed else 0)
    record_bytes = log_record_bytes(key_bytes, value_bytes)
    retention_ms = _retention_ms(topic)
    live = (
        load.keys * math.ceil(retention_ms / advance_ms)
        if windowed and retention_ms is not None
        else max(live_in_log, size.entries)
    )
    log = estimate_changelog_size(
        live_records=live,
        record_bytes=record_bytes,
        updates_per_second=updates,
        partitions=tasks,
        retention_ms=retention_ms,
        segment_bytes=_setting(topic, "segment.bytes", SEGMENT_BYTES),
        segment_ms=_setting(topic, "segment.ms", SEGMENT_MS),
        dirty_ratio=float(
            (topic.settings if topic else {}).get("min.cleanable.dirty.ratio", MIN_CLEANABLE_DIRTY_RATIO)
        ),
    )
    store = PlannedStore(
        name=spec.name,
        sub_topology=part.number,
        kind=spec.kind.value,
        backend=spec.backend,
        size=size,
        updates_per_second=updates,
        changelog=name,
        creates_changelog=topic is not None,
        changelog_size=log if name is not None else None,
        changelog_bytes_per_second=updates * record_bytes if name is not None else 0.0,
    )
    return store, _planned(topic, "changelog", log) if topic is not None else None


def plan_global_stores(topology: FrozenTopology, traffic: Traffic, *, copies: int) -> tuple[PlannedStore, ...]:
    """Returns the global stores: each copy has the whole topic, which is not the application's own.

    Args:
        topology: the topology.
        traffic: what reaches each node.
        copies: worker processes of a host.
    """
    load = traffic.load
    record_bytes = log_record_bytes(load.key_bytes, load.value_bytes)
    updates = traffic.records_of_topic
    size = estimate_state_size(
        keys=load.keys,
        key_bytes=load.key_bytes,
        value_bytes=load.value_bytes,
        compression_ratio=load.compression_ratio,
    )
    log = estimate_changelog_size(
        live_records=size.entries,
        record_bytes=record_bytes,
        updates_per_second=updates,
        partitions=1,
        retention_ms=None,
        segment_bytes=SEGMENT_BYTES,
        segment_ms=SEGMENT_MS,
        dirty_ratio=MIN_CLEANABLE_DIRTY_RATIO,
    )
    return tuple(
        PlannedStore(
            name=part.store.name,
            sub_topology=part.number,
            kind=f"global {part.store.kind.value}",
            backend=part.store.backend,
            size=size,
            updates_per_second=updates,
            changelog=part.topic,
            creates_changelog=False,
            changelog_size=log,
            changelog_bytes_per_second=updates * record_bytes,
            copies=copies,
        )
        for part in topology.global_stores
    )


def plan_repartition_topics(
    topology: FrozenTopology, config: StreamsConfig, traffic: Traffic
) -> tuple[PlannedTopic, ...]:
    """The repartition topics. Processed records are deleted every ``repartition.purge.interval.ms``, and leave the disk
    by whole segments: ``bytes/s x interval + partitions x segment.bytes`` at most.

    Args:
        topology: the topology.
        config: of the application.
        traffic: what reaches each node.
    """
    planned = []
    for spec in topology.repartition_topics:
        partitions = traffic.partitions_of(spec.name, otherwise=1)
        topic = repartition_topic(
            spec, config.application_id, partitions=partitions, defaults=config.client_settings("topic.")
        )
        load = traffic.load
        bytes_per_s = traffic.records_through(spec.name) * log_record_bytes(load.key_bytes, load.record_bytes)
        buffered = bytes_per_s * config.repartition_purge_interval_ms / 1000
        segment_s = _setting(topic, "segment.ms", SEGMENT_MS) / 1000
        active = partitions * min(_setting(topic, "segment.bytes", SEGMENT_BYTES), bytes_per_s / partitions * segment_s)
        planned.append(_planned(topic, "repartition", LogSize(live_bytes=buffered, largest_bytes=buffered + active)))
    return tuple(planned)


def _entry_bytes(load: ExpectedLoad, operator: object) -> tuple[int, int]:
    """Bytes of a key and of a value of a store; subscriptions have two keys, and one of them as their value.

    A suppression buffer has the value before a change and after it, and where the change's record came from.
    """
    if isinstance(operator, TableSuppress):
        return load.key_bytes, 2 * load.value_bytes + BUFFERED_RECORD_BYTES
    if isinstance(operator, SubscriptionReceive):
        return 2 * load.key_bytes + COMBINED_KEY_BYTES, load.key_bytes + SUBSCRIPTION_BYTES
    return load.key_bytes, load.value_bytes


def _windows(spec: StoreSpec, operator: object) -> tuple[int, int]:
    """Distance of the windows of a store, milliseconds, and how many of them hold one record at most."""
    if isinstance(operator, WindowedAggregate):
        windows = operator.windows
        return windows.advance_ms, math.ceil(windows.size_ms / windows.advance_ms)
    return max(spec.window_size_ms, 1), 1


def _kept(spec: StoreSpec, operator: object, keys: int, updates_per_second: float) -> tuple[int, int]:
    """Entries of a store (of one window), and records of its changelog that compaction leaves alone.

    A versioned store has its keys and the versions of its history; compaction of its changelog begins a day later. A
    join with grace keeps what came within the grace period.
    """
    if spec.kind is StoreKind.VERSIONED:
        history_s = spec.history_retention_ms / 1000
        return (
            keys + math.ceil(updates_per_second * history_s),
            keys + math.ceil(updates_per_second * (history_s + _DAY_S)),
        )
    if isinstance(operator, StreamTableJoin):
        buffered = math.ceil(updates_per_second * (operator.grace_ms or 0) / 1000)
        return buffered, buffered
    return keys, keys


def _cached(writes_per_second: float, keys: float, tasks: int, interval_s: float) -> float:
    """Updates per second of a store that writes each key once per commit of a task."""
    return distinct_keys(writes_per_second / tasks * interval_s, max(keys / tasks, 1)) * tasks / interval_s


def _planned(topic: TopicSpec, purpose: str, size: LogSize) -> PlannedTopic:
    return PlannedTopic(
        name=topic.name,
        purpose=purpose,
        partitions=topic.partitions,
        cleanup_policy=topic.settings["cleanup.policy"],
        retention_ms=_retention_ms(topic),
        size=size,
    )


def _retention_ms(topic: TopicSpec | None) -> int | None:
    """How long the records of a topic stay, ``None`` where they are not deleted by time."""
    if topic is None or "delete" not in topic.settings["cleanup.policy"]:
        return None
    retention_ms = _setting(topic, "retention.ms", -1)
    return retention_ms if retention_ms >= 0 else None


def _setting(topic: TopicSpec | None, name: str, default: int) -> int:
    return int(topic.settings.get(name, default)) if topic is not None else default
