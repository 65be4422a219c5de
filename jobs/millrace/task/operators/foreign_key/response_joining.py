"""The last step of a foreign-key join: it joins responses with the primary rows that they are for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from millrace.kafka.murmur3 import hash128
from millrace.metrics import DropReason
from millrace.serdes.subscriptions import Instruction, Response, Subscription
from millrace.task.columns import BoolArray, Column, IntArray
from millrace.task.failures import FailureHandler
from millrace.task.operators.foreign_key.row_hashes import row_hashes
from millrace.task.operators.tables.table_rows import RowFunctions, no_rows, of_pair
from millrace.task.processor import Forwarded, Processor, call_per_record
from millrace.task.records import Records, merge_in_order
from millrace.task.serialization import or_default, to_bytes_list
from millrace.task.table_getters import Rows, table_getter
from millrace.task.task_stores import TaskStores
from millrace.topology.foreign_key_join import ResponseJoin, SubscribeAgain
from millrace.topology.operators import TableMapValues


class ResponseJoinProcessor(Processor):
    """The processor that joins responses with rows; a response whose hash is not that of the row now is dropped.

    It is dropped and counted: a later one follows, for which an inner join must ask where the dropped one had no
    foreign row: see ``SubscribeAgain``.

    The hash of a row's value is that of its bytes as the table's serde writes them. Unlike in Kafka Streams that of the
    bytes in the table's store will do as well: after a compatible change of the serde (a field with a default) the rows
    from before are what they were subscribed as there, and would get no change of a foreign row (KAFKA-15303). A
    computed row, of which no store has the bytes, is subscribed again.

    No foreign row means no result, which a left join has only where the primary row is gone as well.
    """

    def __init__(
        self,
        node: str,
        operator: ResponseJoin,
        *,
        failures: FailureHandler,
        stores: TaskStores,
        partition: int,
        settles: bool,
    ) -> None:
        self._node = node
        self._failures = failures
        self._partition = partition
        self._joiner = operator.joiner
        self._left_join = operator.left_join
        self._result = operator.result
        self._again = operator.again
        self._settles = settles and not operator.left_join
        self._key_serde = or_default(operator.key_serde)
        self._value_serde = or_default(operator.value_serde)
        self._getter = table_getter(operator.table, stores)

    def process(self, records: Records) -> Forwarded:
        functions = RowFunctions(self._failures, self._node, records)
        found = self._getter.get(records, functions)
        rows = found.values
        hashes = row_hashes(rows, self._value_serde, self._node)
        responses: list[Response] = records.values.objects
        current = np.fromiter(
            (response.hash == row_hash for response, row_hash in zip(responses, hashes, strict=True)), dtype=bool
        )
        if found.stored is not None:
            # A row may have been subscribed by a serde that wrote other bytes of it than the serde of today: those that
            # the store still has.
            for row in np.flatnonzero(~current).tolist():
                data = found.stored[row]
                current[row] = data is not None and responses[row].hash == hash128(data)
        stale = ~current & ~functions.failed
        renewed = self._renewed(np.flatnonzero(stale), found, hashes)
        self._failures.drop(DropReason.STALE_RESPONSE, records.origin[stale & ~renewed])
        forwarded: dict[str, Records] = {}
        results: list[Records] = []
        kept = np.flatnonzero(current & ~functions.failed)
        if len(kept):
            results.append(self._joined(records.take(kept), rows.take(kept).objects))
        asking = renewed
        if self._settles and stale.any():
            ends = np.fromiter((response.foreign_value is None for response in responses), dtype=bool)
            late = np.flatnonzero(stale & ends)
            results.append(self._deletions(records.take(late), rows.take(late), self._again))
            asking = renewed | (stale & ends)
        if asking.any():
            again = self._subscriptions(records.take(np.flatnonzero(asking)), self._again)
            if again is not None:
                forwarded[self._again.sink] = again
        if results:
            forwarded[self._result] = merge_in_order(results)
        return forwarded

    def _renewed(self, stale: IntArray, found: Rows, hashes: list[bytes | None]) -> BoolArray:
        """Returns which rows are as they were before their table's serde changed, but of unknown subscription.

        Such a row is subscribed again, as today's serde writes it, and the response has the foreign row. A serde that
        writes the same value in two ways is left alone: no response would ever match.
        """
        renewed = np.zeros(len(hashes), dtype=bool)
        for row in stale.tolist():
            if hashes[row] is not None and found.is_foreign(row):
                once_more = row_hashes(found.values.take(np.array([row])), self._value_serde, self._node)
                renewed[row] = once_more[0] == hashes[row]
        return renewed

    def _deletions(self, records: Records, rows: Column, again: SubscribeAgain) -> Records:
        """Returns the deletions of results whose rows are gone or have no foreign key, as of the records' positions."""
        foreign_keys = RowFunctions(self._failures, self._node, records).map(TableMapValues(again.extractor), rows)
        ended = records.filter(foreign_keys.null_mask())
        return ended.with_values(no_rows(len(ended)))

    def _subscriptions(self, records: Records, again: SubscribeAgain) -> Records | None:
        """Returns the subscriptions of the records' rows as of the end of the batch, ordered after all other records.

        Earlier ones than that a cache may have merged away, and then nothing would end them.
        """
        last = np.full(len(records), np.iinfo(np.int64).max, dtype=np.int64)
        asking = replace(records, order=(last,))
        functions = RowFunctions(self._failures, self._node, asking)
        rows = self._getter.get(asking, functions)
        foreign_keys = functions.map(TableMapValues(again.extractor), rows.values)
        hashes = row_hashes(rows.values, self._value_serde, self._node)
        # The last response of each row, if it has a foreign key now.
        last_rows = sorted({key: row for row, key in enumerate(to_bytes_list(records.keys, self._key_serde))}.values())
        unkeyed = foreign_keys.null_mask()
        taken = np.array([row for row in last_rows if not unkeyed[row]], dtype=np.int64)
        if len(taken) == 0:
            return None
        subscribers = asking.take(taken)
        answer, partition = Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE, self._partition
        return replace(
            subscribers,
            keys=foreign_keys.take(taken),
            values=Column(
                objects=[
                    Subscription(hashes[row], answer, key, partition)
                    for row, key in zip(taken.tolist(), subscribers.keys.objects, strict=True)
                ]
            ),
            timestamps=rows.timestamps[taken],
            order=(*subscribers.order, np.arange(len(taken), dtype=np.int64)),
        )

    def _joined(self, records: Records, rows: list[Any]) -> Records:
        pairs = [(row, response.foreign_value) for row, response in zip(rows, records.values.objects, strict=True)]
        joined_pair, left_join = of_pair(self._joiner), self._left_join

        def join(key: Any, pair: tuple[Any, Any]) -> Any:
            row, foreign_value = pair
            if foreign_value is None and (not left_join or row is None):
                return None
            return joined_pair(key, pair)

        called = records.with_values(Column(objects=pairs))
        results, joined = call_per_record(join, called, self._failures, self._node)
        kept = records if joined is None else records.take(joined)
        return kept.with_values(Column(objects=results))
