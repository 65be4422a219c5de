"""A topology as JSON-compatible data: what the status topic keeps of it, to compare a new one with."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from millrace.serdes import Serde
from millrace.serdes.subscriptions import CombinedKeySerde, SubscriptionSerde
from millrace.serdes.unset import UnsetSerde
from millrace.topology.aggregators import Aggregator, BuiltInAggregator, StructAggregator, TableAggregator
from millrace.topology.emit_strategy import EmitStrategy
from millrace.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode
from millrace.topology.operators import (
    CogroupAggregate,
    JoinBuffer,
    Operator,
    ProcessRecords,
    SessionAggregate,
    SlidingAggregate,
    StreamAggregate,
    StreamSelfJoin,
    StreamStreamJoin,
    StreamTableJoin,
    TableAggregate,
    TableSuppress,
    TableTransformValues,
    WindowedAggregate,
)
from millrace.topology.parts import GlobalStore, SubTopology, TopologyParts
from millrace.topology.stores import StoreBackend, StoreKind, StoreSpec
from millrace.topology.topic_extractors import extractor_text
from millrace.topology.unlimited_windows import UnlimitedWindows

SUMMARY_VERSION = 1


def summarize(topology: TopologyParts) -> dict[str, Any]:
    """Returns what identifies ``topology`` and its state. Callables are not part of it, only the nodes that have them.

    Returns:
        ``version``; ``sub_topologies``: lists of nodes; ``stores`` and ``repartition_topics`` by name;
        ``co_partition_groups``; where there are any, ``global_stores`` by name.
    """
    summary = {
        "version": SUMMARY_VERSION,
        "sub_topologies": [[_node(node) for node in part.nodes] for part in topology.sub_topologies],
        "stores": {
            store.name: _store(topology, part, store) for part in topology.sub_topologies for store in part.stores
        },
        "repartition_topics": {spec.name: spec.partitions for spec in topology.repartition_topics},
        # By their sources where the topics are those that a pattern matches: these change, the topology does not.
        "co_partition_groups": [
            sorted(group) for group in topology.co_partitioned_sources or topology.co_partition_groups
        ],
    }
    if topology.global_stores:
        summary["global_stores"] = {each.store.name: _global_store(each) for each in topology.global_stores}
    return summary


def numbered_parts(summary: Mapping[str, Any]) -> list[tuple[int, list[dict[str, Any]]]]:
    """Returns the sub-topologies of a summary: number and nodes.

    Global stores are numbered among them, but listed elsewhere.
    """
    taken = {each["number"] for each in summary.get("global_stores", {}).values()}
    parts = summary.get("sub_topologies", ())
    numbers = (number for number in itertools.count() if number not in taken)
    return list(zip(numbers, parts, strict=False))


def _node(node: Node) -> dict[str, Any]:
    match node:
        case SourceNode(pattern=pattern) if pattern is not None:
            # Not the topics that it matches: they change while the topology does not.
            return {"name": node.name, "kind": "Source", "topics": [pattern.pattern]}
        case SourceNode():
            return {"name": node.name, "kind": "Source", "topics": sorted(node.topics)}
        case SinkNode(extractor=extractor) if extractor is not None:
            return {
                "name": node.name,
                "kind": "Sink",
                "parents": list(node.parents),
                "extractor": extractor_text(extractor),
            }
        case SinkNode():
            return {"name": node.name, "kind": "Sink", "parents": list(node.parents), "topic": node.topic}
        case ProcessorNode():
            kind = type(node.operator).__name__
            return {"name": node.name, "kind": kind, "parents": list(node.parents), "stores": list(node.stores)}


def _store(topology: TopologyParts, part: SubTopology, store: StoreSpec) -> dict[str, Any]:
    owners = owners_of(part, store.name)
    operator = written_by(owners[0])
    connected = is_only_connected(owners[0], store.name)
    data: dict[str, Any] = {
        "sub_topology": part.number,
        "kind": store.kind.value,
        "operator": "Processor" if connected else type(operator).__name__,
        "key_serde": _serde(store.key_serde),
        "value_serde": _serde(store.value_serde),
        "logged": store.logged,
        "source_topic": store.source_topic,
        "origin": sorted(set().union(*(origin_topics(topology, owner.name) for owner in owners))),
    }
    if connected and store.retention_ms:
        data["windows"] = {"size_ms": store.window_size_ms, "retention_ms": store.retention_ms}
    if isinstance(operator, StreamAggregate | WindowedAggregate | SlidingAggregate | SessionAggregate | TableAggregate):
        data["aggregation"] = describe_aggregation(operator.aggregator)
    if getattr(operator, "emit", EmitStrategy.WINDOW_UPDATE) is not EmitStrategy.WINDOW_UPDATE:
        data["emit"] = EmitStrategy.WINDOW_CLOSE.value
    if (backend := _backend(store)) != StoreBackend.ROCKSDB.value:
        data["backend"] = backend
    windows = _windows(operator, store)
    if windows:
        data["windows"] = windows
    if isinstance(operator, TableSuppress):
        suppress = operator
        data["suppression"] = {
            "until": "window close" if suppress.until_window_closes else "time limit",
            "wait_ms": suppress.wait_ms,
            "max_records": suppress.max_records,
            "max_bytes": suppress.max_bytes,
            "when_full": "emit early" if suppress.emits_when_full else "fail",
        }
    return data


def _windows(operator: Operator, store: StoreSpec) -> dict[str, Any]:
    """The windows of what writes a store, or its history or grace, milliseconds; empty where it has none."""
    if store.kind is StoreKind.VERSIONED:
        return {"retention_ms": store.history_retention_ms}
    match operator:
        case StreamTableJoin(grace_ms=grace_ms):
            return {"grace_ms": grace_ms}
        case WindowedAggregate(windows=windows):
            data = {"size_ms": windows.size_ms, "advance_ms": windows.advance_ms, "grace_ms": windows.grace_ms}
            if isinstance(windows, UnlimitedWindows):
                data["start_ms"] = windows.start_ms
        case SlidingAggregate(windows=sliding):
            data = {"size_ms": sliding.difference_ms, "grace_ms": sliding.grace_ms}
        case SessionAggregate(windows=sessions):
            data = {"gap_ms": sessions.gap_ms, "grace_ms": sessions.grace_ms}
            return {**data, "longest_ms": sessions.longest_ms, "retention_ms": store.retention_ms}
        case JoinBuffer(windows=between) | StreamSelfJoin(windows=between):
            data = {"before_ms": between.before_ms, "after_ms": between.after_ms, "grace_ms": between.grace_ms}
        case StreamStreamJoin(windows=between, kind=kind):
            data = {"before_ms": between.before_ms, "after_ms": between.after_ms, "grace_ms": between.grace_ms}
            return {**data, "kind": kind.value}
        case _:
            return {}
    return {**data, "retention_ms": store.retention_ms}


def _backend(store: StoreSpec) -> str:
    if store.custom is not None:
        return getattr(store.custom, "__name__", type(store.custom).__name__)
    return store.backend.value if store.capacity is None else f"memory, {store.capacity} keys at most"


def _global_store(part: GlobalStore) -> dict[str, Any]:
    return {
        "number": part.number,
        "nodes": [_node(node) for node in part.nodes],
        "topic": part.topic,
        "kind": part.store.kind.value,
        "operator": type(part.processor.operator).__name__,
        "key_serde": _serde(part.source.key_serde),
        "value_serde": _serde(part.source.value_serde),
    }


def owners_of(part: SubTopology, store: str) -> list[ProcessorNode]:
    """Returns the nodes that write a store: the first one that has it, and the other inputs of its cogroup.

    A processor that a user wrote may only look into the store of another operator; one that none of these has belongs
    to all the processors that are connected to it.
    """
    users = [node for node in part.processors if store in node.stores]
    makers = [node for node in users if not is_only_connected(node, store)]
    if not makers:
        return users
    first, *others = makers
    return [first, *(node for node in others if isinstance(node.operator, CogroupAggregate))]


def is_only_connected(node: ProcessorNode, store: str) -> bool:
    """Returns whether a store of the node is one that a user connected to it."""
    operator = node.operator
    return isinstance(operator, ProcessRecords) or (
        isinstance(operator, TableTransformValues) and operator.store != store
    )


def written_by(owner: ProcessorNode) -> Operator:
    """Returns what makes the content of a store; a cogroup's is that of an aggregation of one stream."""
    return owner.operator.aggregation if isinstance(owner.operator, CogroupAggregate) else owner.operator


def _serde(serde: Serde | None) -> str | None:
    match serde:
        case None | UnsetSerde():
            return None
        case CombinedKeySerde(foreign_key=foreign_key, primary_key=primary_key):
            return f"{_serde(foreign_key)} and {_serde(primary_key)}"
        case SubscriptionSerde(primary_key=primary_key):
            return f"subscription of {_serde(primary_key)}"
        case _:
            return type(serde).__name__


def describe_aggregation(aggregator: Aggregator | TableAggregator) -> str:
    """Words for what an aggregation computes: ``count``, ``sum(amount)``."""
    match aggregator:
        case BuiltInAggregator(field=None):
            return aggregator.kind
        case BuiltInAggregator():
            return f"{aggregator.kind}({aggregator.field})"
        case StructAggregator():
            return ", ".join(f"{name}={describe_aggregation(field)}" for name, field in aggregator.fields)
        case _:
            return type(aggregator).__name__


def origin_topics(topology: TopologyParts, name: str) -> set[str]:
    """Returns the topics outside of the application that feed a node, also through repartition topics."""
    nodes = {node.name: node for part in topology.sub_topologies for node in part.nodes}
    writers: dict[str, list[str]] = {}
    for node in nodes.values():
        if isinstance(node, SinkNode) and node.internal and node.topic is not None:
            writers.setdefault(node.topic, []).append(node.name)
    topics: set[str] = set()
    seen: set[str] = set()
    remaining = [name]
    while remaining:
        current = nodes[remaining.pop()]
        if current.name in seen:
            continue
        seen.add(current.name)
        if not isinstance(current, SourceNode):
            remaining += current.parents
        elif current.internal:
            remaining += [writer for topic in current.topics for writer in writers.get(topic, [])]
        elif current.pattern is not None:
            topics.add(current.pattern.pattern)
        else:
            topics.update(current.topics)
    return topics
