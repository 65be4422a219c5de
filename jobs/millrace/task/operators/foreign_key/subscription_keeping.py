"""The foreign side of a foreign-key join: it stores subscriptions, and looks them up when a foreign row changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from millrace.metrics import DropReason
from millrace.serdes.subscriptions import (
    Instruction,
    Response,
    Subscription,
    SubscriptionSerde,
    combined_key_prefix,
    split_combined_key,
)
from millrace.state.stores import PrefixScanStore
from millrace.task.columns import BoolArray, Column, IntArray
from millrace.task.failures import FailureHandler
from millrace.task.operators.tables.table_rows import present_key_bytes
from millrace.task.processor import JointProcessor, drop_null_keys, drop_superseded
from millrace.task.records import Records, concat_orders, merge_in_order, sorted_rows
from millrace.task.serialization import or_default, to_bytes_list
from millrace.task.task_stores import TaskStores
from millrace.topology.foreign_key_join import SubscriptionReceive
from millrace.topology.nodes import ProcessorNode


class SubscriptionKeepingProcessor(JointProcessor):
    """The processor of the two nodes that share the subscription store: ``SubscriptionReceive``, ``ForeignTableJoin``.

    Runs of records of one node are taken at once, so a batch in which subscriptions and foreign rows do not alternate
    costs one write and one look-up for each foreign key.

    Subscriptions to no foreign key are passed on and not kept, where they ask for an answer; others are dropped and
    counted, and so are foreign rows without a key.
    """

    def __init__(self, nodes: Sequence[ProcessorNode], *, failures: FailureHandler, stores: TaskStores) -> None:
        receivers = [(node.name, node.operator) for node in nodes if isinstance(node.operator, SubscriptionReceive)]
        ((self._receive_node, operator),) = receivers
        (self._foreign_node,) = (node.name for node in nodes if node.name != self._receive_node)
        self._failures = failures
        self._foreign_key_serde = or_default(operator.foreign_key_serde)
        self._primary_key_serde = or_default(operator.primary_key_serde)
        self._subscription_serde = SubscriptionSerde(operator.primary_key_serde)
        store = stores.open(operator.store)
        assert isinstance(store, PrefixScanStore)
        self._store = store

    def process(self, inputs: Mapping[str, Records]) -> Mapping[str, Records]:
        received = self._answerable(inputs.get(self._receive_node))
        changed = inputs.get(self._foreign_node)
        if changed is not None:
            changed = drop_superseded(drop_null_keys(changed, self._failures), self._failures)
        responses: list[Records] = []
        for is_foreign, rows in _runs(received, changed):
            if not is_foreign:
                assert received is not None
                self._keep(received if len(rows) == len(received) else received.take(rows))
            else:
                assert changed is not None
                responses += self._respond(changed if len(rows) == len(changed) else changed.take(rows))
        forwarded: dict[str, Records] = {}
        if received is not None:
            forwarded[self._receive_node] = received
        if responses:
            forwarded[self._foreign_node] = merge_in_order(responses)
        return forwarded

    def _answerable(self, records: Records | None) -> Records | None:
        """Returns the records without those that have no foreign key and ask for no response."""
        if records is None:
            return None
        no_key = records.keys.null_mask()
        if not no_key.any():
            return records
        answer = Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE
        asks = np.fromiter((each.instruction is answer for each in records.values.objects), dtype=bool)
        self._failures.drop(DropReason.NULL_KEY, records.origin[no_key & ~asks])
        return records.filter(~no_key | asks)

    def _keep(self, records: Records) -> None:
        subscriptions: list[Subscription] = records.values.objects
        foreign_keys = to_bytes_list(records.keys, self._foreign_key_serde)
        kept = [row for row, key in enumerate(foreign_keys) if key is not None]
        if not kept:
            return
        serialize_key = self._primary_key_serde.serialize
        keys = [
            combined_key_prefix(key) + serialize_key(subscription.primary_key)
            for key, subscription in zip(foreign_keys, subscriptions, strict=True)
            if key is not None
        ]
        values = [
            None if subscriptions[row].instruction.deletes else self._subscription_serde.serialize(subscriptions[row])
            for row in kept
        ]
        self._store.put_many(keys, values, records.timestamps[np.array(kept, dtype=np.int64)])

    def _respond(self, records: Records) -> list[Records]:
        """Returns the new row of each foreign key for each of its subscriptions, by the bytes of the primary keys."""
        prefixes = [
            combined_key_prefix(key)
            for key in present_key_bytes(to_bytes_list(records.keys, self._foreign_key_serde), self._foreign_node)
        ]
        distinct = list(dict.fromkeys(prefixes))
        subscriptions = {
            prefix: [
                (self._primary_key_serde.deserialize(split_combined_key(key)[1]), self._subscription(value))
                for key, value, _ in entries
            ]
            for prefix, entries in zip(distinct, self._store.prefix_scan_many(distinct), strict=True)
        }
        parents: list[int] = []
        ordinals: list[int] = []
        keys: list[object] = []
        responses: list[Response] = []
        foreign_values = records.values.objects
        for row, prefix in enumerate(prefixes):
            for ordinal, (primary_key, subscription) in enumerate(subscriptions[prefix]):
                parents.append(row)
                ordinals.append(ordinal)
                keys.append(primary_key)
                responses.append(Response(subscription.hash, foreign_values[row], subscription.primary_partition))
        if not parents:
            return []
        return [
            records.expand(
                np.array(parents, dtype=np.int64),
                np.array(ordinals, dtype=np.int64),
                Column(objects=keys),
                Column(objects=responses),
            )
        ]

    def _subscription(self, value: bytes) -> Subscription:
        return self._subscription_serde.deserialize(value)


def _runs(received: Records | None, changed: Records | None) -> list[tuple[bool, IntArray]]:
    """Returns runs of adjacent records of one node in the common order: whether it is the foreign table's, and rows."""
    parts = [(is_foreign, records) for is_foreign, records in ((False, received), (True, changed)) if records]
    if len(parts) < 2:
        return [(is_foreign, np.arange(len(records), dtype=np.int64)) for is_foreign, records in parts]
    rows = sorted_rows(concat_orders([records.order for _, records in parts]))
    first_changed = len(parts[0][1])
    foreign: BoolArray = rows >= first_changed
    starts = [0, *(np.flatnonzero(foreign[1:] != foreign[:-1]) + 1).tolist(), len(rows)]
    return [
        (bool(foreign[start]), rows[start:end] - (first_changed if foreign[start] else 0))
        for start, end in pairwise(starts)
    ]
