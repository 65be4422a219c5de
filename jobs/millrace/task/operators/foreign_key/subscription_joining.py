"""The responses to subscriptions of a foreign-key join, with the foreign rows as of the subscriptions' positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.serdes.subscriptions import Instruction, Response, Subscription
from millrace.state.layout import NO_TIMESTAMP
from millrace.task.columns import Column
from millrace.task.failures import FailureHandler
from millrace.task.operators.tables.table_rows import RowFunctions
from millrace.task.processor import Forwarded, Processor
from millrace.task.records import Records
from millrace.task.table_getters import table_getter
from millrace.task.task_stores import TaskStores
from millrace.topology.foreign_key_join import SubscriptionJoin


class SubscriptionJoinProcessor(Processor):
    """The processor that responds to subscriptions; a response has the later timestamp of subscription and foreign row.

    It has that timestamp also where it says that there is no result.
    """

    def __init__(self, node: str, operator: SubscriptionJoin, *, failures: FailureHandler, stores: TaskStores) -> None:
        self._node = node
        self._failures = failures
        self._getter = table_getter(operator.table, stores)

    def process(self, records: Records) -> Forwarded:
        silent = Instruction.DELETE_KEY_NO_PROPAGATE
        asks = np.fromiter((each.instruction is not silent for each in records.values.objects), dtype=bool)
        records = records.filter(asks)
        if len(records) == 0:
            return None
        foreign_values, foreign_timestamps, failed = self._foreign_rows(records)
        subscriptions: list[Subscription] = records.values.objects
        answers: list[Response] = []
        kept = np.zeros(len(records), dtype=bool)
        for row, subscription in enumerate(subscriptions):
            value = foreign_values[row]
            if failed[row]:
                continue
            match subscription.instruction:
                case Instruction.DELETE_KEY_AND_PROPAGATE:
                    value = None
                case Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE if value is None:
                    continue
                case _:
                    pass
            kept[row] = True
            answers.append(Response(subscription.hash, value, subscription.primary_partition))
        answered = records.filter(kept)
        timestamps = np.maximum(answered.timestamps, foreign_timestamps[kept])
        return Records(
            Column(objects=[each.primary_key for each in answered.values.objects]),
            Column(objects=answers),
            timestamps,
            answered.origin,
            answered.order,
            answered.headers,
            positions=answered.positions,
        )

    def _foreign_rows(self, records: Records) -> tuple[list[Any], Any, Any]:
        """Returns the foreign rows' values and timestamps, and where the look-up failed; a null key finds no row."""
        with_key = ~records.keys.null_mask()
        searching = records.filter(with_key)
        functions = RowFunctions(self._failures, self._node, searching)
        found = self._getter.get(searching, functions)
        if with_key.all():
            return found.values.objects, found.timestamps, functions.failed
        indices = np.flatnonzero(with_key)
        values: list[Any] = [None] * len(records)
        for index, value in zip(indices.tolist(), found.values.objects, strict=True):
            values[index] = value
        timestamps = np.full(len(records), NO_TIMESTAMP, dtype=np.int64)
        timestamps[indices] = found.timestamps
        failed = np.zeros(len(records), dtype=bool)
        failed[indices] = functions.failed
        return values, timestamps, failed
