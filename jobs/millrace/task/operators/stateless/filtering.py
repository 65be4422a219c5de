"""``filter`` and ``filter_not``, branches, and dropped null keys: operators that pass records on unchanged."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.metrics import SilentDrop
from millrace.task.columns import BoolArray, Column
from millrace.task.expressions import evaluate
from millrace.task.failures import FailureHandler
from millrace.task.processor import Forwarded, Processor, call_per_record
from millrace.task.records import Records
from millrace.topology.expression_checks import boolean
from millrace.topology.operators import Branch, DropNullKeys, Filter, PassThrough, Predicate


def truth(predicate: Predicate, records: Records, failures: FailureHandler, node: str) -> tuple[Records, BoolArray]:
    """Returns the records at which the predicate did not fail, and where it is true for them; null is not true."""
    if isinstance(predicate, pc.Expression):
        column, kept = evaluate(predicate, records, failures, node, check=boolean)
        mask = truth_of(column)
    else:
        results, kept = call_per_record(predicate, records, failures, node)
        mask = np.fromiter((bool(result) for result in results), dtype=bool, count=len(results))
    return (records if kept is None else records.take(kept)), mask


def truth_of(column: Column) -> BoolArray:
    """Returns where a predicate's results are true; null is not."""
    if not column.is_arrow:
        return np.fromiter((value is True for value in column.objects), dtype=bool, count=len(column))
    mask: BoolArray = pc.fill_null(column.arrow.cast(pa.bool_()), pa.scalar(False)).to_numpy(zero_copy_only=False)
    return mask


class FilterProcessor(Processor):
    """The processor that passes records on whose predicate is true or, if negated, is not true."""

    def __init__(self, node: str, operator: Filter, *, failures: FailureHandler) -> None:
        self._node = node
        self._operator = operator
        self._failures = failures

    def process(self, records: Records) -> Forwarded:
        records, mask = truth(self._operator.predicate, records, self._failures, self._node)
        return records.filter(~mask if self._operator.negated else mask)


class BranchProcessor(Processor):
    """The processor that sends each record to the first branch whose predicate is true, or to the default branch."""

    def __init__(self, node: str, operator: Branch, *, failures: FailureHandler) -> None:
        self._node = node
        self._operator = operator
        self._failures = failures

    def process(self, records: Records) -> Forwarded:
        branches: dict[str, Records] = {}
        unmatched = records
        for predicate, child in self._operator.predicates:
            unmatched, mask = truth(predicate, unmatched, self._failures, self._node)
            branches[child] = unmatched.filter(mask)
            unmatched = unmatched.filter(~mask)
        if self._operator.default_child is not None:
            branches[self._operator.default_child] = unmatched
        return branches


class PassThroughProcessor(Processor):
    """The processor that passes all records on."""

    def __init__(self, node: str, operator: PassThrough) -> None:
        pass

    def process(self, records: Records) -> Forwarded:
        return records


class DropNullKeysProcessor(Processor):
    """The processor that drops null keys before a repartition topic; Kafka Streams does not count them."""

    def __init__(self, node: str, operator: DropNullKeys, *, failures: FailureHandler) -> None:
        self._failures = failures

    def process(self, records: Records) -> Forwarded:
        no_key = records.keys.null_mask()
        if not no_key.any():
            return records
        self._failures.drop_silently(SilentDrop.NULL_KEY, records.origin[no_key])
        return records.filter(~no_key)
