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
    operators.Filter: FilterProcessor,
    operators.Branch: BranchProcessor,
    operators.PassThrough: PassThroughProcessor,
    operators.DropNullKeys: DropNullKeysProcessor,
    operators.Map: MapProcessor,
    operators.MapValues: MapValuesProcessor,
    operators.SelectKey: SelectKeyProcessor,
    operators.Peek: PeekProcessor,
    operators.FlatMap: FlatMapProcessor,
    operators.FlatMapValues: FlatMapValuesProcessor,
    operators.StreamAggregate: StreamAggregateProcessor,
    operators.WindowedAggregate: WindowedAggregateProcessor,
    operators.SlidingAggregate: SlidingAggregateProcessor,
    operators.SessionAggregate: SessionAggregateProcessor,
    operators.CogroupMerge: PassThroughProcessor,
    operators.TableSource: TableSourceProcessor,
    operators.TableToStream: TableToStreamProcessor,
    operators.StreamTableJoin: StreamTableJoinProcessor,
    operators.StreamGlobalTableJoin: StreamGlobalTableJoinProcessor,
    operators.JoinBuffer: PassThroughProcessor,
    operators.StreamSelfJoin: StreamSelfJoinProcessor,
    operators.ProcessRecords: UserProcessor,
    operators.TableFilter: TableFilterProcessor,
    operators.TableMapValues: TableMapValuesProcessor,
    operators.TableTransformValues: TableTransformValuesProcessor,
    operators.TableJoinSide: TableJoinSideProcessor,
    operators.TableJoinMerge: TableJoinMergeProcessor,
    operators.TableSelect: TableSelectProcessor,
    operators.TableAggregate: TableAggregateProcessor,
    operators.TableSuppress: SuppressProcessor,
    foreign_key_join.SubscriptionSend: SubscriptionSendProcessor,
    foreign_key_join.SubscriptionJoin: SubscriptionJoinProcessor,
    foreign_key_join.ResponseJoin: ResponseJoinProcessor,
}

_JOINT_PROCESSORS: dict[type[Any], Callable[[Sequence[ProcessorNode], TaskContext], JointProcessor]] = {
    operators.StreamStreamJoin: StreamStreamJoinProcessor,
    operators.CogroupAggregate: CogroupProcessor,
    foreign_key_join.SubscriptionReceive: SubscriptionKeepingProcessor,
}


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
