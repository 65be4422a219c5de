"""The arguments that name serdes: what a message calls a topic or store, and the argument that gives it one."""

from __future__ import annotations

from millrace.topology.foreign_key_join import ResponseJoin, SubscriptionReceive
from millrace.topology.nodes import ProcessorNode, SinkNode, SourceNode
from millrace.topology.operators import (
    CogroupAggregate,
    JoinBuffer,
    Operator,
    ProcessRecords,
    SessionAggregate,
    SlidingAggregate,
    StreamAggregate,
    StreamSelfJoin,
    StreamTableJoin,
    TableAggregate,
    TableSource,
    TableSuppress,
    TableTransformValues,
    WindowedAggregate,
)
from millrace.topology.stores import StoreSpec


def topic_text(node: SourceNode | SinkNode) -> str:
    """Returns a source or sink and its topic."""
    if isinstance(node, SourceNode):
        return f"Source {node.name} of topic {', '.join(node.topics)}"
    return f"Sink {node.name} " + (f"to topic {node.topic}" if node.topic is not None else "to the topics it chooses")


def repartition_option(reader: Operator | None) -> str:
    """Returns the option object that names the serdes of a repartition topic, by the operator that reads it."""
    match reader:
        case (
            StreamAggregate()
            | WindowedAggregate()
            | SlidingAggregate()
            | SessionAggregate()
            | CogroupAggregate()
            | TableAggregate()
        ):
            return "Grouped"
        case TableSource():
            return "Materialized"
        case StreamTableJoin():
            return "Joined"
        case JoinBuffer() | StreamSelfJoin():
            return "StreamJoined"
        case SubscriptionReceive() | ResponseJoin():
            return "the joined tables' Consumed or Materialized"
        case _:
            return "Repartitioned"


def store_text(store: StoreSpec, owner: ProcessorNode) -> str:
    """Returns a store and the node that writes it."""
    return f"Store {store.name} of node {owner.name}"


def store_argument(owner: ProcessorNode) -> str:
    """Returns what names the serdes of a store of ``owner``; ``PART`` stands for key or value."""
    match owner.operator:
        case ProcessRecords():
            return "PART_serde of its builder in Stores"
        case TableTransformValues(store=None):
            return "PART_serde of its builder in Stores"
        case _:
            return f"PART_serde of {_option_of(owner.operator)}"


def _option_of(operator: Operator) -> str:
    """The option object that names the serdes of an operator."""
    match operator:
        case StreamTableJoin():
            return "Joined"
        case JoinBuffer() | StreamSelfJoin():
            return "StreamJoined"
        case TableSuppress():
            return "the suppressed table's Consumed or Materialized"
        case (
            StreamAggregate()
            | WindowedAggregate()
            | SlidingAggregate()
            | SessionAggregate()
            | CogroupAggregate()
            | TableAggregate()
        ):
            return "Materialized or Grouped"
        case TableSource():
            return "Consumed or Materialized"
        case _:
            return "Materialized"
