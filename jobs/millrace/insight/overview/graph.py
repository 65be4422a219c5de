"""A running topology as nodes and edges, with what flows along them. Pure; from the summary that the driver tells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from millrace.driver.status import ApplicationStatus
from millrace.topology.summary import numbered_parts

_Number = TypeVar("_Number", int, float)
_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")


class NodeKind(StrEnum):
    """What a node is."""

    SOURCE = "source"
    PROCESSOR = "processor"
    SINK = "sink"


class PartState(StrEnum):
    """How a sub-topology is."""

    RUNNING = "running"
    BEHIND = "behind"
    RESTORING = "restoring"
    STOPPED = "stopped"
    GLOBAL = "global"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class GraphNode:
    """A source, processor or sink.

    Args:
        name: its name in the topology.
        kind: what it is.
        label: a few words about what it does; of a source or sink its topics.
        parents: names of the nodes above.
        stores: names of its stores.
        topics: of a source or sink.
        internal: whether the topic is one of the application's own.
        rate: records per second that a source reads or a sink writes, where known.
        lag: records that a source is behind, where known.
    """

    name: str
    kind: NodeKind
    label: str
    parents: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    internal: bool = False
    rate: float | None = None
    lag: int | None = None


@dataclass(frozen=True, kw_only=True)
class GraphPart:
    """A sub-topology, or what fills a global store.

    Args:
        number: its number.
        nodes: parents before children.
        state: how it is.
        tasks: how many tasks it has.
        rate: input records per second, where known.
        lag: records behind, where known.
        batches: finished since the driver started.
        last_batch_at: when one was finished last, seconds since the epoch.
    """

    number: int
    nodes: tuple[GraphNode, ...]
    state: PartState
    tasks: int = 0
    rate: float | None = None
    lag: int | None = None
    batches: int = 0
    last_batch_at: float | None = None


@dataclass(frozen=True, kw_only=True)
class Graph:
    """A topology.

    Args:
        parts: by number.
        is_current: whether it is of a driver that answers; else of the last one that did.
    """

    parts: tuple[GraphPart, ...]
    is_current: bool = True


@dataclass(frozen=True, kw_only=True)
class Flows:
    """What was measured along the edges, records per second.

    Args:
        read: by topic.
        written: by sub-topology and topic.
        processed: by sub-topology.
    """

    read: Mapping[str, float] = field(default_factory=dict)
    written: Mapping[tuple[int, str], float] = field(default_factory=dict)
    processed: Mapping[int, float] = field(default_factory=dict)


def graph_of(status: ApplicationStatus, flows: Flows, *, is_current: bool) -> Graph | None:
    """The topology of a status; none where the driver has not accepted one yet.

    Args:
        status: the driver's.
        flows: what was measured.
        is_current: whether the driver answers; else nothing is said of states, rates and lag.
    """
    summary = status.topology_summary
    if not summary.get("sub_topologies"):
        return None
    # The driver's names of internal topics begin with the application id, the topology's do not.
    prefix = f"{status.application_id}-"
    internal = {
        *summary.get("repartition_topics", {}),
        *(prefix + name for name in summary.get("repartition_topics", {})),
    }
    reader = _Reader(status, flows if is_current else Flows(), internal, prefix, is_current)
    found = [reader.global_part(each) for each in summary.get("global_stores", {}).values()]
    found += [reader.part(number, nodes) for number, nodes in numbered_parts(summary)]
    return Graph(parts=tuple(sorted(found, key=lambda part: part.number)), is_current=is_current)


@dataclass(frozen=True)
class _Reader:
    status: ApplicationStatus
    flows: Flows
    internal: set[str]
    prefix: str
    is_current: bool

    def part(self, number: int, nodes: list[dict[str, Any]]) -> GraphPart:
        progress = self.status.progress.get(number)
        if progress is None or not self.is_current:
            return GraphPart(number=number, nodes=self._nodes(number, nodes), state=PartState.UNKNOWN)
        state = PartState.RUNNING
        if not progress.active:
            state = PartState.STOPPED
        elif progress.restore_remaining:
            state = PartState.RESTORING
        elif progress.lag_since is not None and (progress.lag or 0) > 0:
            state = PartState.BEHIND
        return GraphPart(
            number=number,
            nodes=self._nodes(number, nodes),
            state=state,
            tasks=len(progress.task_states),
            rate=self.flows.processed.get(number),
            lag=progress.lag,
            batches=progress.batches,
            last_batch_at=progress.last_batch_finished_at,
        )

    def global_part(self, store: dict[str, Any]) -> GraphPart:
        number = int(store["number"])
        return GraphPart(number=number, nodes=self._nodes(number, store["nodes"]), state=PartState.GLOBAL)

    def _nodes(self, number: int, nodes: list[dict[str, Any]]) -> tuple[GraphNode, ...]:
        return tuple(self._node(number, node) for node in nodes)

    def _node(self, number: int, node: dict[str, Any]) -> GraphNode:
        name, parents = str(node["name"]), tuple(node.get("parents", ()))
        if node["kind"] == "Source":
            topics = tuple(node["topics"])
            return GraphNode(
                name=name,
                kind=NodeKind.SOURCE,
                label=", ".join(topics),
                topics=topics,
                internal=any(topic in self.internal for topic in topics),
                rate=_sum([self._named(self.flows.read, topic) for topic in topics]),
                lag=_sum([self._lag(topic) for topic in topics]),
            )
        if node["kind"] == "Sink":
            topic = node.get("topic")
            return GraphNode(
                name=name,
                kind=NodeKind.SINK,
                label=str(topic or f"topic chosen by {node.get('extractor', 'a function')}"),
                parents=parents,
                topics=() if topic is None else (topic,),
                internal=topic in self.internal,
                rate=None if topic is None else self._written(number, topic),
            )
        return GraphNode(
            name=name,
            kind=NodeKind.PROCESSOR,
            label=_WORD_START.sub(" ", str(node["kind"])).lower(),
            parents=parents,
            stores=tuple(node.get("stores", ())),
        )

    def _named(self, values: Mapping[str, float], topic: str) -> float | None:
        return values.get(topic, values.get(self.prefix + topic))

    def _written(self, number: int, topic: str) -> float | None:
        written = self.flows.written
        return written.get((number, topic), written.get((number, self.prefix + topic)))

    def _lag(self, topic: str) -> int | None:
        if not self.is_current:
            return None
        lags = self.status.lag.get(topic, self.status.lag.get(self.prefix + topic))
        return sum(lags.values()) if lags else None


def _sum(values: list[_Number | None]) -> _Number | None:
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None
