"""``filter`` and ``filter_not``, branches, and dropped null keys: records that pass as they are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.errors import ProcessingError
from millrace.task.columns import BoolArray
from millrace.task.expressions import evaluate
from millrace.task.processor import Forwarded, Processor, TaskContext, call_per_record
from millrace.task.records import Records
from millrace.topology.operators import Branch, DropNullKeys, Filter, PassThrough, Predicate


def truth(predicate: Predicate, records: Records, context: TaskContext, node: str) -> tuple[Records, BoolArray]:
    """The records for which the predicate did not fail, and whether it is true for each; null is not true."""
    if isinstance(predicate, pc.Expression):
        column = evaluate(predicate, records).arrow
        if not pa.types.is_boolean(column.type) and not pa.types.is_null(column.type):
            raise ProcessingError(
                f"The predicate {predicate} of node {node} is of type {column.type}, not boolean.",
                remedy="compare the field with something, or use is_valid()",
            )
        mask: BoolArray = pc.fill_null(column.cast(pa.bool_()), pa.scalar(False)).to_numpy(zero_copy_only=False)
        return records, mask
    results, kept = call_per_record(predicate, records, context.failures, node)
    if kept is not None:
        records = records.take(kept)
    return records, np.fromiter((bool(result) for result in results), dtype=bool, count=len(results))


class FilterProcessor(Processor):
    """Passes records whose predicate is true, or is not true where the filter is negated."""

    def __init__(self, node: str, operator: Filter, context: TaskContext) -> None:
        self._node = node
        self._operator = operator
        self._context = context

    def process(self, records: Records) -> Forwarded:
        records, mask = truth(self._operator.predicate, records, self._context, self._node)
        return records.filter(~mask if self._operator.negated else mask)


class BranchProcessor(Processor):
    """Sends each record to the first branch whose predicate is true, the rest to the default branch."""

    def __init__(self, node: str, operator: Branch, context: TaskContext) -> None:
        self._node = node
        self._operator = operator
        self._context = context

    def process(self, records: Records) -> Forwarded:
        branches: dict[str, Records] = {}
        rest = records
        for predicate, child in self._operator.predicates:
            rest, mask = truth(predicate, rest, self._context, self._node)
            branches[child] = rest.filter(mask)
            rest = rest.filter(~mask)
        if self._operator.default_child is not None:
            branches[self._operator.default_child] = rest
        return branches


class PassThroughProcessor(Processor):
    """Passes everything on."""

    def __init__(self, node: str, operator: PassThrough, context: TaskContext) -> None:
        pass

    def process(self, records: Records) -> Forwarded:
        return records


class DropNullKeysProcessor(Processor):
    """Filters null keys silently, as Kafka Streams does in front of a repartition topic."""

    def __init__(self, node: str, operator: DropNullKeys, context: TaskContext) -> None:
        pass

    def process(self, records: Records) -> Forwarded:
        return records.filter(~records.keys.null_mask())
