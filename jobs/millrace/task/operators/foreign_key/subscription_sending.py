"""The primary side of a foreign-key join: it turns changes of its table into subscriptions to foreign keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.metrics import DropReason
from millrace.serdes.subscriptions import Instruction, Subscription
from millrace.task.columns import Column
from millrace.task.failures import FailureHandler
from millrace.task.operators.foreign_key.row_hashes import foreign_key_bytes, row_hashes
from millrace.task.operators.tables.table_rows import RowFunctions, no_rows
from millrace.task.processor import Forwarded, Processor, drop_superseded
from millrace.task.records import Records
from millrace.task.serialization import or_default
from millrace.topology.foreign_key_join import SubscriptionSend
from millrace.topology.operators import TableMapValues

_DELETE_ONLY = Instruction.DELETE_KEY_NO_PROPAGATE
_END = Instruction.DELETE_KEY_AND_PROPAGATE
_ANSWER = Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE
_ANSWER_IF_FOUND = Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE


class SubscriptionSendProcessor(Processor):
    """The processor that sends up to two records for a change: the end of the old subscription, then the new one.

    An inner join drops and counts rows without a foreign key; one that had a foreign key before ends its subscription
    and has its result deleted. A left join subscribes them to no key, which is answered with no row.
    """

    def __init__(self, node: str, operator: SubscriptionSend, *, failures: FailureHandler, partition: int) -> None:
        self._node = node
        self._failures = failures
        self._partition = partition
        self._left_join = operator.left_join
        self._extractor = TableMapValues(operator.extractor)
        self._foreign_key_serde = or_default(operator.foreign_key_serde)
        self._value_serde = or_default(operator.value_serde)

    def process(self, records: Records) -> Forwarded:
        records = drop_superseded(records, self._failures)
        functions = RowFunctions(self._failures, self._node, records)
        old_values = records.old_values or no_rows(len(records))
        old_keys = functions.map(self._extractor, old_values)
        new_keys = functions.map(self._extractor, records.values)
        instructions = self._left_instructions if self._left_join else self._inner_instructions
        old_bytes, new_bytes = (functions.written(keys, self._foreign_key_bytes) for keys in (old_keys, new_keys))
        rows = zip(
            functions.failed.tolist(),
            old_bytes,
            new_bytes,
            old_values.null_mask().tolist(),
            records.values.null_mask().tolist(),
            strict=True,
        )
        parents: list[int] = []
        ordinals: list[int] = []
        sent: list[Instruction] = []
        for row, (failed, old, new, no_old_row, no_new_row) in enumerate(rows):
            if failed or (no_old_row and no_new_row):
                continue
            if new is None and not no_new_row and not self._left_join:
                self._failures.drop(DropReason.NULL_KEY, [int(records.origin[row])])
            for ordinal, instruction in enumerate(instructions(old, new)):
                parents.append(row)
                ordinals.append(ordinal)
                sent.append(instruction)
        if not sent:
            return None
        return self._subscriptions(records, (old_keys.objects, new_keys.objects), parents, ordinals, sent)

    def _foreign_key_bytes(self, keys: Column) -> list[bytes | None]:
        return foreign_key_bytes(keys, self._foreign_key_serde, self._node)

    def _inner_instructions(self, old: bytes | None, new: bytes | None) -> list[Instruction]:
        if new is None:
            return [] if old is None else [_END]
        if old is None or old == new:
            return [_ANSWER_IF_FOUND]
        return [_DELETE_ONLY, _ANSWER]

    def _left_instructions(self, old: bytes | None, new: bytes | None) -> list[Instruction]:
        return [_ANSWER] if old is None or old == new else [_DELETE_ONLY, _ANSWER]

    def _subscriptions(
        self,
        records: Records,
        keys: tuple[list[Any], list[Any]],
        parents: list[int],
        ordinals: list[int],
        sent: list[Instruction],
    ) -> Records:
        old_keys, new_keys = keys
        indices = np.array(parents, dtype=np.int64)
        distinct, index_of = np.unique(indices, return_inverse=True)
        hashes = row_hashes(records.values.take(distinct), self._value_serde, self._node)
        primary_keys = records.keys.take(distinct).objects
        partition = self._partition
        return records.expand(
            indices,
            np.array(ordinals, dtype=np.int64),
            Column(
                objects=[
                    old_keys[row] if instruction.deletes else new_keys[row]
                    for row, instruction in zip(parents, sent, strict=True)
                ]
            ),
            Column(
                objects=[
                    Subscription(hashes[index], instruction, primary_keys[index], partition)
                    for index, instruction in zip(index_of.tolist(), sent, strict=True)
                ]
            ),
        )
