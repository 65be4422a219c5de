"""One copy of a global store: its topic's records go in, and every processor of the process may read it."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from millrace.config import StreamsConfig
from millrace.state import KeyValueStore, TaskPosition, TaskState
from millrace.state.read_only import ReadOnlyKeyValueStore
from millrace.task.collector import Collector
from millrace.task.failures import FailureHandler
from millrace.task.input import InputBatch, TopicPartition
from millrace.task.operators import create_processor
from millrace.task.processor import TaskContext, drop_null_keys
from millrace.task.records import Records
from millrace.task.source import Source
from millrace.topology.operators import TableSource
from millrace.topology.timestamp_extractors import FailOnInvalidTimestamp
from millrace.topology.topology import GlobalStore


class GlobalState:
    """Applies records of a global topic to an open store, which others read meanwhile.

    A global table keeps the topic's own bytes: they are decoded only to find those that cannot be. Another operator
    writes the store as it likes. Records keep their timestamps, whatever an extractor would say, as in Kafka Streams.

    Args:
        part: the global store in its topology.
        config: the application's configuration.
        state: where the store is; it holds no other.
    """

    def __init__(self, part: GlobalStore, config: StreamsConfig, state: TaskState) -> None:
        self.part = part
        self.failures = FailureHandler(config, f"of global store {part.store.name}")
        self._state = state
        self._guard = threading.RLock()
        self._source = Source(part.source, self.failures, {}, FailOnInvalidTimestamp())
        self._is_table = isinstance(part.processor.operator, TableSource)
        self._context = TaskContext(
            config=config,
            stores={part.store.name: part.store},
            open_store=state.store,
            failures=self.failures,
            processors={part.processor.name: part.processor},
        )
        self._processor = None if self._is_table else create_processor(part.processor, self._context)

    @property
    def store(self) -> KeyValueStore:
        """The store, for readers of any thread."""
        return ReadOnlyKeyValueStore(self._state.key_value_store(self.part.store.name), self._guard)

    @property
    def position(self) -> TaskPosition:
        """How far it is."""
        return self._state.position

    def apply(self, batch: InputBatch, position: TaskPosition, collector: Collector) -> None:
        """Applies records in their order and moves the position with them, in one write.

        Args:
            batch: the records.
            position: the position behind them.
            collector: takes the dead letters.

        Raises:
            MillraceError: a record could not be read or processed, and its handler does not continue; nothing of the
                batch was applied then.
        """
        with self._guard:
            self.failures.begin_batch(batch)
            self.failures.node = self.part.source.name
            try:
                if len(batch):
                    self._process(batch)
                self._state.commit(position)
                self.failures.end_batch(collector)
            except BaseException:
                self._state.rollback()
                if self._processor is not None:
                    self._processor.reset()
                raise

    def wipe(self) -> None:
        """Empties the store and forgets the position."""
        with self._guard:
            self._state.wipe()

    def _process(self, batch: InputBatch) -> None:
        records = self._source.read_as_recorded(batch)
        self.failures.node = self.part.processor.name
        if self._processor is not None:
            self._processor.process(records)
        else:
            self._write(batch, drop_null_keys(records, self.failures))

    def _write(self, batch: InputBatch, records: Records) -> None:
        kept = batch.take(records.origin)
        store = self._state.key_value_store(self.part.store.name)
        store.put_many(kept.keys.to_pylist(), kept.values.to_pylist(), kept.timestamp)


def behind(position: TaskPosition, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The ends that a position has not reached."""
    return {place: end for place, end in ends.items() if position.inputs.get(place, -1) < end}
