"""Joins of a stream with itself over one buffer."""

from __future__ import annotations

from millrace.kafka.commit_metadata import UNKNOWN_TIME
from millrace.metrics import DropReason
from millrace.task.failures import FailureHandler
from millrace.task.operators.joins.join_buffer import JoinBuffer
from millrace.task.operators.joins.join_results import JoinResults
from millrace.task.processor import Forwarded, Processor
from millrace.task.records import Records
from millrace.task.task_stores import TaskStores
from millrace.task.written_records import written
from millrace.topology.operators import StreamSelfJoin


class StreamSelfJoinProcessor(Processor):
    """The processor that joins a record as left one with earlier records, then as right one, then with itself.

    The results and their order are those of the join over two buffers, as in Kafka Streams (KIP-862); a record that has
    expired when it comes (two milliseconds early, as there) is not joined with itself.
    """

    def __init__(
        self,
        node: str,
        operator: StreamSelfJoin,
        *,
        failures: FailureHandler,
        stores: TaskStores,
        stream_times: dict[str, int],
    ) -> None:
        self._node = node
        self._operator = operator
        self._failures = failures
        self._stream_times = stream_times
        self._buffer = JoinBuffer(operator.store, stores)

    def process(self, records: Records) -> Forwarded:
        failures, windows = self._failures, self._operator.windows
        buffer = self._buffer
        found = written(records, failures, self._node, key_serde=buffer.key_serde, value_serde=buffer.value_serde)
        records, keys, data = found.records, found.keys, found.values
        if len(records) == 0:
            return None
        no_key, no_value = records.keys.null_mask(), records.values.null_mask()
        failures.drop(DropReason.NULL_KEY, records.origin[no_key])
        failures.drop(DropReason.NULL_VALUE, records.origin[no_value & ~no_key])
        furthest = max(windows.before_ms, windows.after_ms)
        self._buffer.load(
            [key for key in keys if key is not None],
            int(records.timestamps.min()) - furthest,
            int(records.timestamps.max()) + furthest,
        )
        results = JoinResults(records, self._operator.joiner, failures, takes_key=self._operator.joiner_takes_key)
        times = self._stream_times
        stream_time = times.get(self._operator.store, UNKNOWN_TIME)
        values = records.values.objects
        for row, timestamp in enumerate(records.timestamps.tolist()):
            key = keys[row]
            if key is None:
                continue
            if data[row] is not None:
                stream_time = max(stream_time, timestamp)
                expired = timestamp <= stream_time - windows.retention_ms + 1
                self._join(results, row, key, (timestamp, values[row]), joins_itself=not expired)
            self._buffer.put(key, data[row], timestamp, int(records.origin[row]))
        if stream_time != UNKNOWN_TIME:
            times[self._operator.store] = stream_time
        failures.drop(DropReason.EXPIRED_WINDOW, self._buffer.flush())
        return results.records()[0]

    def _join(
        self, results: JoinResults, row: int, key: bytes, record: tuple[int, object], *, joins_itself: bool
    ) -> None:
        windows, node = self._operator.windows, self._node
        timestamp, value = record
        for other_time, other in self._buffer.partners(
            key, timestamp - windows.before_ms, timestamp + windows.after_ms
        ):
            if not results.add(row, node, value, other, max(timestamp, other_time)):
                return
        for other_time, other in self._buffer.partners(
            key, timestamp - windows.after_ms, timestamp + windows.before_ms
        ):
            if joins_itself and other_time > timestamp:
                joins_itself = False
                if not results.add(row, node, value, value, timestamp):
                    return
            if not results.add(row, node, other, value, max(timestamp, other_time)):
                return
        if joins_itself:
            results.add(row, node, value, value, timestamp)
