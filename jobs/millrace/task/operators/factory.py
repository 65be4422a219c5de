"""The factory of processors, by the operator of a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from millrace.errors import TopologyError
from millrace.task.operators.aggregations.aggregating import StreamAggregateProcessor
from millrace.task.operators.aggregations.cogrouping import CogroupProcessor
from millrace.task.operators.aggregations.table_aggregating import TableAggregateProcessor
from millrace.task.operators.foreign_key.response_joining import ResponseJoinProcessor
from millrace.task.operators.foreign_key.subscription_joining import SubscriptionJoinProcessor
from millrace.task.operators.foreign_key.subscription_keeping import SubscriptionKeepingProcessor
from millrace.task.operators.foreign_key.subscription_sending import SubscriptionSendProcessor
from millrace.task.operators.joins.self_joining import StreamSelfJoinProcessor
from millrace.task.operators.joins.stream_global_joining import StreamGlobalTableJoinProcessor
from millrace.task.operators.joins.stream_stream_joining import StreamStreamJoinProcessor
from millrace.task.operators.joins.stream_table_joining import StreamTableJoinProcessor
from millrace.task.operators.joins.table_joining import TableJoinMergeProcessor, TableJoinSideProcessor
from millrace.task.operators.stateless.filtering import (
    BranchProcessor,
    DropNullKeysProcessor,
    FilterProcessor,
    PassThroughProcessor,
)
from millrace.task.operators.stateless.flat_mapping import FlatMapProcessor, FlatMapValuesProcessor
from millrace.task.operators.stateless.mapping import (
    MapProcessor,
    MapValuesProcessor,
    PeekProcessor,
    SelectKeyProcessor,
)
from millrace.task.operators.suppression.suppressing import SuppressProcessor
from millrace.task.operators.tables.table import TableSourceProcessor, TableToStreamProcessor
from millrace.task.operators.tables.table_filtering import TableFilterProcessor, TableMapValuesProcessor
from millrace.task.operators.tables.table_selecting import TableSelectProcessor
from millrace.task.operators.tables.table_transforming import TableTransformValuesProcessor
from millrace.task.operators.user_processing import UserProcessor
from millrace.task.operators.windows.session_aggregating import SessionAggregateProcessor
from millrace.task.operators.windows.sliding_aggregating import SlidingAggregateProcessor
from millrace.task.operators.windows.windowed_aggregating import WindowedAggregateProcessor
from millrace.task.processor import JointProcessor, Processor, TaskContext
from millrace.topology import foreign_key_join, operators
from millrace.topology.nodes import ProcessorNode

_Create = Callable[[str, Any, TaskContext], Processor]


def _alone(make: Callable[..., Processor]) -> _Create:
    return lambda name, operator, _: make(name, operator)


def _reporting(make: Callable[..., Processor]) -> _Create:
    return lambda name, operator, task: make(name, operator, failures=task.failures)


def _with_stores(make: Callable[..., Processor]) -> _Create:
    return lambda name, operator, task: make(name, operator, failures=task.failures, stores=task.stores)


def _in_stream_time(make: Callable[..., Processor]) -> _Create:
    return lambda name, operator, task: make(
        name, operator, failures=task.failures, stores=task.stores, stream_times=task.stream_times
    )


def _holding_back(make: Callable[..., Processor]) -> _Create:
    return lambda name, operator, task: make(
        name,
        operator,
        failures=task.failures,
        stores=task.stores,
        stream_times=task.stream_times,
        held_back=task.held_back,
    )


_PROCESSORS: dict[type[Any], _Create] = {
    operators.Filter: _reporting(FilterProcessor),
    operators.Branch: _reporting(BranchProcessor),
    operators.PassThrough: _alone(PassThroughProcessor),
    operators.DropNullKeys: _reporting(DropNullKeysProcessor),
    operators.Map: _reporting(MapProcessor),
    operators.MapValues: _reporting(MapValuesProcessor),
    operators.SelectKey: _reporting(SelectKeyProcessor),
    operators.Peek: _reporting(PeekProcessor),
    operators.FlatMap: _reporting(FlatMapProcessor),
    operators.FlatMapValues: _reporting(FlatMapValuesProcessor),
    operators.StreamAggregate: _with_stores(StreamAggregateProcessor),
    operators.WindowedAggregate: _holding_back(WindowedAggregateProcessor),
    operators.SlidingAggregate: _holding_back(SlidingAggregateProcessor),
    operators.SessionAggregate: _holding_back(SessionAggregateProcessor),
    operators.CogroupMerge: _alone(PassThroughProcessor),
    operators.TableSource: _with_stores(TableSourceProcessor),
    operators.TableToStream: _alone(TableToStreamProcessor),
    operators.StreamTableJoin: _in_stream_time(StreamTableJoinProcessor),
    operators.StreamGlobalTableJoin: lambda name, operator, task: StreamGlobalTableJoinProcessor(
        name,
        operator,
        failures=task.failures,
        store=task.open_global_store(operator.store),
        spec=task.global_stores[operator.store],
    ),
    operators.JoinBuffer: _alone(PassThroughProcessor),
    operators.StreamSelfJoin: _in_stream_time(StreamSelfJoinProcessor),
    operators.ProcessRecords: UserProcessor,
    operators.TableFilter: _with_stores(TableFilterProcessor),
    operators.TableMapValues: _with_stores(TableMapValuesProcessor),
    operators.TableTransformValues: TableTransformValuesProcessor,
    operators.TableJoinSide: _with_stores(TableJoinSideProcessor),
    operators.TableJoinMerge: _with_stores(TableJoinMergeProcessor),
    operators.TableSelect: _reporting(TableSelectProcessor),
    operators.TableAggregate: _with_stores(TableAggregateProcessor),
    operators.TableSuppress: _holding_back(SuppressProcessor),
    foreign_key_join.SubscriptionSend: lambda name, operator, task: SubscriptionSendProcessor(
        name, operator, failures=task.failures, partition=task.partition
    ),
    foreign_key_join.SubscriptionJoin: _with_stores(SubscriptionJoinProcessor),
    foreign_key_join.ResponseJoin: lambda name, operator, task: ResponseJoinProcessor(
        name,
        operator,
        failures=task.failures,
        stores=task.stores,
        partition=task.partition,
        settles=task.config.foreign_key_join_settles,
    ),
}
"""The function that makes the processor of an operator, with those parts of the task that it uses."""

_JOINT_PROCESSORS: dict[type[Any], Callable[[Sequence[ProcessorNode], TaskContext], JointProcessor]] = {
    operators.StreamStreamJoin: lambda nodes, task: StreamStreamJoinProcessor(
        nodes,
        failures=task.failures,
        stores=task.stores,
        stream_times=task.stream_times,
        wall_clock_ms=task.wall_clock_ms,
        emit_interval_ms=task.config.outer_join_emit_interval_ms,
    ),
    operators.CogroupAggregate: lambda nodes, task: CogroupProcessor(
        nodes, failures=task.failures, stores=task.stores, stream_times=task.stream_times, held_back=task.held_back
    ),
    foreign_key_join.SubscriptionReceive: lambda nodes, task: SubscriptionKeepingProcessor(
        nodes, failures=task.failures, stores=task.stores
    ),
}
"""The same of operators whose nodes run together."""


def create_processor(node: ProcessorNode, context: TaskContext) -> Processor:
    """Returns the processor of a node.

    Raises:
        TopologyError: no processor is known for the node's operator.
    """
    create = _PROCESSORS.get(type(node.operator))
    if create is None:
        raise TopologyError(
            f"Node {node.name} has the operator {type(node.operator).__name__}, which has no processor."
        )
    return create(node.name, node.operator, context)


def create_joint_processor(nodes: Sequence[ProcessorNode], context: TaskContext) -> JointProcessor:
    """Returns the processor of nodes that run jointly; their operators are of one kind.

    Raises:
        TopologyError: no joint processor is known for the nodes' operator.
    """
    create = _JOINT_PROCESSORS.get(type(nodes[0].operator))
    if create is None:
        raise TopologyError(
            f"Node {nodes[0].name} has the operator {type(nodes[0].operator).__name__}, which has no joint processor."
        )
    return create(nodes, context)
