"""Which processor gives an operator its behaviour."""

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

_PROCESSORS: dict[type[Any], Callable[[str, Any, TaskContext], Processor]] = {
    operators.Filter: lambda name, operator, task: FilterProcessor(name, operator, failures=task.failures),
    operators.Branch: lambda name, operator, task: BranchProcessor(name, operator, failures=task.failures),
    operators.PassThrough: lambda name, operator, _: PassThroughProcessor(name, operator),
    operators.DropNullKeys: lambda name, operator, task: DropNullKeysProcessor(name, operator, failures=task.failures),
    operators.Map: lambda name, operator, task: MapProcessor(name, operator, failures=task.failures),
    operators.MapValues: lambda name, operator, task: MapValuesProcessor(name, operator, failures=task.failures),
    operators.SelectKey: lambda name, operator, task: SelectKeyProcessor(name, operator, failures=task.failures),
    operators.Peek: lambda name, operator, task: PeekProcessor(name, operator, failures=task.failures),
    operators.FlatMap: lambda name, operator, task: FlatMapProcessor(name, operator, failures=task.failures),
    operators.FlatMapValues: lambda name, operator, task: FlatMapValuesProcessor(
        name, operator, failures=task.failures
    ),
    operators.StreamAggregate: lambda name, operator, task: StreamAggregateProcessor(
        name, operator, failures=task.failures, stores=task.stores
    ),
    operators.WindowedAggregate: lambda name, operator, task: WindowedAggregateProcessor(
        name,
        operator,
        failures=task.failures,
        stores=task.stores,
        stream_times=task.stream_times,
        held_back=task.held_back,
    ),
    operators.SlidingAggregate: lambda name, operator, task: SlidingAggregateProcessor(
        name,
        operator,
        failures=task.failures,
        stores=task.stores,
        stream_times=task.stream_times,
        held_back=task.held_back,
    ),
    operators.SessionAggregate: lambda name, operator, task: SessionAggregateProcessor(
        name,
        operator,
        failures=task.failures,
        stores=task.stores,
        stream_times=task.stream_times,
        held_back=task.held_back,
    ),
    operators.CogroupMerge: lambda name, operator, _: PassThroughProcessor(name, operator),
    operators.TableSource: lambda name, operator, task: TableSourceProcessor(
        name, operator, failures=task.failures, stores=task.stores
    ),
    operators.TableToStream: lambda name, operator, _: TableToStreamProcessor(name, operator),
    operators.StreamTableJoin: lambda name, operator, task: StreamTableJoinProcessor(
        name, operator, failures=task.failures, stores=task.stores, stream_times=task.stream_times
    ),
    operators.StreamGlobalTableJoin: lambda name, operator, task: StreamGlobalTableJoinProcessor(
        name,
        operator,
        failures=task.failures,
        store=task.open_global_store(operator.store),
        spec=task.global_stores[operator.store],
    ),
    operators.JoinBuffer: lambda name, operator, _: PassThroughProcessor(name, operator),
    operators.StreamSelfJoin: lambda name, operator, task: StreamSelfJoinProcessor(
        name, operator, failures=task.failures, stores=task.stores, stream_times=task.stream_times
    ),
    operators.ProcessRecords: UserProcessor,
    operators.TableFilter: lambda name, operator, task: TableFilterProcessor(
        name, operator, failures=task.failures, stores=task.stores
    ),
    operators.TableMapValues: lambda name, operator, task: TableMapValuesProcessor(
        name, operator, failures=task.failures, stores=task.stores
    ),
    operators.TableTransformValues: TableTransformValuesProcessor,
    operators.TableJoinSide: lambda name, operator, task: TableJoinSideProcessor(
        name, operator, failures=task.failures, stores=task.stores
    ),
    operators.TableJoinMerge: lambda name, operator, task: TableJoinMergeProcessor(
        name, operator, failures=task.failures, stores=task.stores
    ),
    operators.TableSelect: lambda name, operator, task: TableSelectProcessor(name, operator, failures=task.failures),
    operators.TableAggregate: lambda name, operator, task: TableAggregateProcessor(
        name, operator, failures=task.failures, stores=task.stores
    ),
    operators.TableSuppress: lambda name, operator, task: SuppressProcessor(
        name,
        operator,
        failures=task.failures,
        stores=task.stores,
        stream_times=task.stream_times,
        held_back=task.held_back,
    ),
    foreign_key_join.SubscriptionSend: lambda name, operator, task: SubscriptionSendProcessor(
        name, operator, failures=task.failures, partition=task.partition
    ),
    foreign_key_join.SubscriptionJoin: lambda name, operator, task: SubscriptionJoinProcessor(
        name, operator, failures=task.failures, stores=task.stores
    ),
    foreign_key_join.ResponseJoin: lambda name, operator, task: ResponseJoinProcessor(
        name,
        operator,
        failures=task.failures,
        stores=task.stores,
        partition=task.partition,
        settles=task.config.foreign_key_join_settles,
    ),
}
"""What makes the processor of an operator, with what of the task it uses."""

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
    """The processor of a node.

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
    """The processor of nodes that run together; their operators are of one kind.

    Raises:
        TopologyError: no joint processor is known for the nodes' operator.
    """
    create = _JOINT_PROCESSORS.get(type(nodes[0].operator))
    if create is None:
        raise TopologyError(
            f"Node {nodes[0].name} has the operator {type(nodes[0].operator).__name__}, which has no joint processor."
        )
    return create(nodes, context)
