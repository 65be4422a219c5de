"""``transform_values`` of tables by an object of the user, which may use stores."""

from __future__ import annotations

from itertools import repeat
from typing import Any

from millrace.errors import ProcessingError
from millrace.handlers import ProcessedRecord
from millrace.task.columns import Column
from millrace.task.dead_letters import NO_ROW
from millrace.task.operators.tables.table_filtering import RowByRowProcessor
from millrace.task.operators.tables.table_rows import RowFunctions
from millrace.task.processing.punctuation import Punctuation
from millrace.task.processing.user_code import UserCode
from millrace.task.processor import Forwarded, TaskContext
from millrace.task.records import Records
from millrace.topology.operators import TableTransformValues


class TableTransformValuesProcessor(RowByRowProcessor[TableTransformValues]):
    """The processor that transforms the new value, then the old one where it is needed and not stored.

    The order is that of Kafka Streams.

    Its task runs record by record, so that a transformer with stores gets the values in that order.
    """

    def __init__(self, node: str, operator: TableTransformValues, context: TaskContext) -> None:
        super().__init__(node, operator, failures=context.failures, stores=context.stores)
        self._runtime = context.processing
        self._records: Records | None = None
        self.code = UserCode(node, operator.supplier, context, self._refuse)

    def reset(self) -> None:
        self.code.close()

    def process(self, records: Records) -> Forwarded:
        self._records = records
        return super().process(records)

    def punctuate(self, punctuation: Punctuation, now_ms: int, row: int) -> Forwarded:
        """Calls a punctuator after ``row``, or with ``NO_ROW`` before the first."""
        with self._runtime.at(timestamp_ms=now_ms, origin=NO_ROW, row=row):
            try:
                punctuation.callback(now_ms)
            except Exception as error:
                self._failures.processing(error, None, self._node)
        return None

    def _apply(self, functions: RowFunctions, values: Column) -> Column:
        records = self._records
        assert records is not None
        transform = self.code.instance.transform
        results: list[Any] = []
        rows = zip(
            records.keys.objects,
            values.objects,
            records.timestamps.tolist(),
            records.origin.tolist(),
            records.order[0].tolist(),
            repeat(None, len(records)) if records.positions is None else records.positions,
            strict=True,
        )
        for number, (key, value, timestamp, origin, row, position) in enumerate(rows):
            result = None
            if not functions.failed[number]:
                with self._runtime.at(timestamp_ms=timestamp, origin=origin, row=row, position=position):
                    try:
                        result = transform(key, value)
                    except Exception as error:
                        failed = ProcessedRecord(key=key, value=value, timestamp=timestamp, headers=[])
                        self._failures.processing(error, origin, self._node, failed)
                        functions.failed[number] = True
            results.append(result)
        return Column(objects=results)

    def _refuse(self, _: Any, __: str | None) -> None:
        raise ProcessingError(
            f"The transformer {self._node} forwards a record.", remedy="return the new value from transform()"
        )
