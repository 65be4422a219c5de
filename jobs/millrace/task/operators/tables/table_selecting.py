"""The first half of ``KTable.group_by``: changes under the new keys of their old and new rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.metrics import SilentDrop
from millrace.task.columns import Column
from millrace.task.failures import FailureHandler
from millrace.task.operators.stateless.mapping import checked_pair
from millrace.task.operators.tables.table_rows import RowFunctions, no_rows
from millrace.task.processor import Forwarded, Processor
from millrace.task.records import Records
from millrace.topology.operators import TableMapValues, TableSelect


class TableSelectProcessor(Processor):
    """The processor that sends one change if old and new row have the same key, else the old row's change first."""

    def __init__(self, node: str, operator: TableSelect, *, failures: FailureHandler) -> None:
        self._node = node
        self._failures = failures
        self._pair = TableMapValues(lambda key, value: checked_pair(operator.mapper(key, value), node))

    def process(self, records: Records) -> Forwarded:
        # An aggregate is of the newest versions.
        records = records.without_superseded()
        functions = RowFunctions(self._failures, self._node, records)
        new_pairs = functions.map(self._pair, records.values).objects
        old_pairs = functions.map(self._pair, records.old_values or no_rows(len(records))).objects
        parents: list[int] = []
        ordinals: list[int] = []
        keys: list[Any] = []
        changes: list[tuple[Any, Any]] = []
        without_key: list[int] = []
        for row, (failed, new, old) in enumerate(zip(functions.failed.tolist(), new_pairs, old_pairs, strict=True)):
            if failed:
                continue
            if new is not None and new[0] is None:
                without_key.append(int(records.origin[row]))
            is_new, is_old = _is_complete(new), _is_complete(old)
            if is_new and is_old and new[0] == old[0]:
                made = [(new[0], (new[1], old[1]))]
            else:
                made = [(old[0], (None, old[1]))] if is_old else []
                made += [(new[0], (new[1], None))] if is_new else []
            for ordinal, (key, change) in enumerate(made):
                parents.append(row)
                ordinals.append(ordinal)
                keys.append(key)
                changes.append(change)
        self._failures.drop_silently(SilentDrop.NULL_KEY, without_key)
        expanded = records.expand(
            np.array(parents, dtype=np.int64),
            np.array(ordinals, dtype=np.int64),
            Column(objects=keys),
            Column(objects=[new for new, _ in changes]),
        )
        return expanded.with_change(expanded.values, Column(objects=[old for _, old in changes]))


def _is_complete(pair: tuple[Any, Any] | None) -> bool:
    """Returns whether there is a row with a key and a value."""
    return pair is not None and pair[0] is not None and pair[1] is not None
