"""The serdes that a topology leaves to the configuration: ``default.key.serde`` and ``default.value.serde``.

Where neither the topology nor the configuration names one, bytes pass as they are. That suits a topology that never
looks into them; one whose records are no bytes is refused by :mod:`millrace.topology.serde_flow`, before it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from millrace.config import StreamsConfig
from millrace.serdes import Serde, SessionWindowedSerde, TimeWindowedSerde, serde_named
from millrace.serdes.changes import ChangeSerde
from millrace.serdes.subscriptions import CombinedKeySerde, ResponseSerde, SubscriptionSerde
from millrace.serdes.unset import UnsetSerde
from millrace.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode
from millrace.topology.operators import StreamStreamJoin
from millrace.topology.parts import GlobalStore, SubTopology
from millrace.topology.serde_flow import check_serdes
from millrace.topology.serde_places import repartition_option, store_argument, store_text, topic_text
from millrace.topology.stores import StoreSpec
from millrace.topology.summary import owners_of
from millrace.topology.topology import FrozenTopology

T = TypeVar("T")


def default_serde(setting: str | Serde | None) -> Serde | None:
    """Returns the serde of ``default.key.serde`` or ``default.value.serde``.

    Raises:
        ConfigurationError: the name cannot be imported, or is no serde.
    """
    return serde_named(setting) if isinstance(setting, str) else setting


def with_default_serdes(topology: FrozenTopology, config: StreamsConfig) -> FrozenTopology:
    """Returns the topology, checked, with a serde wherever it reads, writes or stores.

    One that has them comes back equal.

    Raises:
        ConfigurationError: a default serde cannot be imported, or is none.
        TopologyError: records that are no bytes reach a topic or store without a serde.
    """
    defaults = _Defaults(default_serde(config.default_key_serde), default_serde(config.default_value_serde))
    global_stores = {part.store.name: _global_store(part, defaults) for part in topology.global_stores}
    options = _repartition_options(topology)
    resolved = replace(
        topology,
        sub_topologies=tuple(_sub_topology(part, defaults, global_stores, options) for part in topology.sub_topologies),
        global_stores=tuple(global_stores.values()),
    )
    check_serdes(resolved)
    return resolved


@dataclass(frozen=True)
class _Defaults:
    key: Serde | None
    value: Serde | None

    def serde(self, serde: Serde | None, part: str, where: str, argument: str) -> Serde:  # noqa: PLR0911 - one a kind of serde
        """The serde, with what it leaves open filled in."""
        key = (part, where, argument)
        match serde:
            case None | UnsetSerde():
                default = self.key if part == "key" else self.value
                return UnsetSerde(part, where, argument) if default is None else default
            case TimeWindowedSerde(inner=UnsetSerde()) | SessionWindowedSerde(inner=UnsetSerde()):
                return replace(serde, inner=self.serde(serde.inner, *key))
            case ChangeSerde():
                return replace(serde, inner=self.serde(serde.inner, *key))
            case SubscriptionSerde():
                return replace(serde, primary_key=self.serde(serde.primary_key, "key", where, argument))
            case ResponseSerde():
                return replace(serde, foreign_value=self.serde(serde.foreign_value, *key))
            case CombinedKeySerde():
                return CombinedKeySerde(self.serde(serde.foreign_key, *key), self.serde(serde.primary_key, *key))
            case _:
                return serde

    def on(self, item: T, where: str, argument: str) -> T:
        """A node, store or operator with all its serdes."""
        changes: dict[str, Any] = {}
        for field in fields(item):  # type: ignore[arg-type]
            for part in ("key", "value"):
                if field.name.endswith(f"{part}_serde"):
                    given = getattr(item, field.name)
                    changes[field.name] = self.serde(given, part, where, argument.replace("PART", part))
        return replace(item, **changes) if changes else item  # type: ignore[type-var]


def _sub_topology(
    part: SubTopology, defaults: _Defaults, global_stores: Mapping[str, GlobalStore], options: Mapping[str, str]
) -> SubTopology:
    untyped = {node.operator.waiting_store for node in part.processors if isinstance(node.operator, StreamStreamJoin)}
    return replace(
        part,
        nodes=tuple(_node(node, defaults, options) for node in part.nodes),
        stores=tuple(
            # What waits in a join of two streams has a layout of its own.
            store if store.name in untyped else _store(store, owners_of(part, store.name)[0], defaults)
            for store in part.stores
        ),
        global_stores=tuple(global_stores[each.store.name] for each in part.global_stores),
    )


def _repartition_options(topology: FrozenTopology) -> dict[str, str]:
    """For each topic of the application's own the option object that names its serdes."""
    options = {}
    for part in topology.sub_topologies:
        for source in part.sources:
            if source.internal:
                readers = [node.operator for node in part.processors if source.name in node.parents]
                option = repartition_option(readers[0] if readers else None)
                options.update(dict.fromkeys(source.topics, option))
    return options


def _node(node: Node, defaults: _Defaults, options: Mapping[str, str]) -> Node:
    match node:
        case SourceNode():
            option = options[node.topics[0]] if node.internal else "Consumed"
            return defaults.on(node, topic_text(node), f"PART_serde of {option}")
        case SinkNode():
            option = options.get(node.topic or "", "Repartitioned") if node.internal else "Produced"
            return defaults.on(node, topic_text(node), f"PART_serde of {option}")
        case ProcessorNode():
            argument = "PART_serde of the table's Consumed or Materialized"
            return replace(node, operator=defaults.on(node.operator, f"Node {node.name}", argument))


def _store(store: StoreSpec, owner: ProcessorNode, defaults: _Defaults) -> StoreSpec:
    return defaults.on(store, store_text(store, owner), store_argument(owner))


def _global_store(part: GlobalStore, defaults: _Defaults) -> GlobalStore:
    return replace(
        part,
        source=defaults.on(part.source, topic_text(part.source), "PART_serde of Consumed"),
        store=_store(part.store, part.processor, defaults),
    )
