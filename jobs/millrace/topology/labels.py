"""The labels of nodes in pictures."""

from __future__ import annotations

import re

from millrace.topology.foreign_key_join import (
    ForeignTableJoin,
    ResponseJoin,
    SubscriptionJoin,
    SubscriptionReceive,
    SubscriptionSend,
)
from millrace.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode
from millrace.topology.operators import (
    CogroupAggregate,
    Filter,
    Operator,
    Peek,
    SessionAggregate,
    SlidingAggregate,
    StreamAggregate,
    StreamGlobalTableJoin,
    StreamStreamJoin,
    StreamTableJoin,
    TableAggregate,
    TableFilter,
    TableJoinMerge,
    TableJoinSide,
    TableMapValues,
    TableSuppress,
    WindowedAggregate,
)
from millrace.topology.summary import describe_aggregation
from millrace.topology.topic_extractors import extractor_text
from millrace.topology.unlimited_windows import UnlimitedWindows

_JOINED: dict[type[Operator], str] = {
    StreamTableJoin: "table",
    StreamGlobalTableJoin: "global table",
    StreamStreamJoin: "stream",
}
_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")


def label(node: Node) -> str:
    """Returns a few words about what ``node`` does: ``filter``, ``count, 60000 ms windows``, the topic's name."""
    match node:
        case SourceNode():
            return ", ".join(node.topics)
        case SinkNode():
            return written_topic(node)
        case ProcessorNode():
            return _operator_label(node)


def written_topic(sink: SinkNode) -> str:
    """Returns the topic of a sink, or how it is chosen."""
    if sink.topic is not None:
        return sink.topic
    assert sink.extractor is not None
    return f"topic by {extractor_text(sink.extractor)}"


def _operator_label(node: ProcessorNode) -> str:
    match node.operator:
        case Filter(negated=True):
            return "filter not"
        case Peek(forwards=False):
            return "foreach"
        case StreamAggregate() | WindowedAggregate() | SlidingAggregate() | SessionAggregate() as aggregation:
            return _aggregation_label(aggregation)
        case CogroupAggregate(aggregation=aggregation):
            return f"cogroup: {_aggregation_label(aggregation)}"
        case (StreamTableJoin() | StreamGlobalTableJoin() | StreamStreamJoin()) as join:
            return f"{join.kind.value} join with {_JOINED[type(join)]}"
        case operator:
            return _table_operator_label(operator) or _WORD_START.sub(" ", type(operator).__name__).lower()


def _table_operator_label(operator: Operator) -> str | None:
    words = None
    match operator:
        case TableFilter(negated=negated):
            words = "table filter not" if negated else "table filter"
        case TableMapValues(maps_nulls=True):
            words = "table transform values"
        case TableJoinSide(kind=kind, is_left=is_left):
            words = f"{kind.value} join of tables, {'left' if is_left else 'right'} side"
        case TableJoinMerge(kind=kind):
            words = f"{kind.value} join of tables"
        case TableAggregate(aggregator=aggregator):
            words = f"{describe_aggregation(aggregator)} of table"
        case TableSuppress(until_window_closes=True):
            words = "suppress until window closes"
        case TableSuppress(wait_ms=wait_ms):
            words = f"suppress for {wait_ms} ms"
        case _:
            words = _foreign_key_label(operator)
    return words


def _foreign_key_label(operator: Operator) -> str | None:
    match operator:
        case SubscriptionSend(left_join=left_join):
            return f"{'left' if left_join else 'inner'} join by foreign key"
        case SubscriptionReceive():
            return "foreign-key subscriptions"
        case SubscriptionJoin():
            return "answers to foreign-key subscriptions"
        case ForeignTableJoin():
            return "foreign rows to subscribers"
        case ResponseJoin(left_join=left_join):
            return f"{'left' if left_join else 'inner'} join with foreign rows"
        case _:
            return None


def _aggregation_label(operator: StreamAggregate | WindowedAggregate | SlidingAggregate | SessionAggregate) -> str:
    words = describe_aggregation(operator.aggregator)
    match operator:
        case WindowedAggregate(windows=UnlimitedWindows()):
            return f"{words}, unlimited window"
        case SlidingAggregate(windows=sliding):
            return f"{words}, sliding windows of {sliding.difference_ms} ms"
        case WindowedAggregate(windows=windows):
            hop = "" if windows.advance_ms == windows.size_ms else f" every {windows.advance_ms} ms"
            return f"{words}, {windows.size_ms} ms windows{hop}"
        case SessionAggregate(windows=sessions):
            return f"{words}, sessions with gaps of {sessions.gap_ms} ms"
        case _:
            return words
