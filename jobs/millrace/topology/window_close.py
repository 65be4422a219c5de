"""The close of a table's windows: their end and the grace of the aggregation that made the table."""

from __future__ import annotations

from collections.abc import Callable

from millrace.errors import TopologyError
from millrace.topology.logical import AnyLogicalNode, Process
from millrace.topology.operators import CogroupAggregate, SessionAggregate, SlidingAggregate, WindowedAggregate


def close_delay_ms(name: str, node_of: Callable[[str], AnyLogicalNode]) -> int:
    """Returns the milliseconds from the end of a window to its close, the largest of all aggregations above.

    Source: ``GraphGraceSearchUtil``.

    Args:
        name: the node that makes the table.
        node_of: finds nodes.

    Raises:
        TopologyError: a way up to a source leads through no windowed aggregation.
    """
    node = node_of(name)
    operator = node.operator if isinstance(node, Process) else None
    match operator.aggregation if isinstance(operator, CogroupAggregate) else operator:
        case WindowedAggregate(windows=windows) | SlidingAggregate(windows=windows):
            return windows.grace_ms
        case SessionAggregate(windows=sessions):
            return sessions.grace_ms + sessions.gap_ms
        case _:
            if not node.parents:
                raise TopologyError(
                    f"The windows of a table never close that has none: node {name!r} reads records without windows.",
                    remedy="use Suppressed.until_time_limit, or aggregate by window first",
                )
            return max(close_delay_ms(parent, node_of) for parent in node.parents)
