"""One copy of a global store: it applies the records of its topic, and all processors of the process may read it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from millrace.config import StreamsConfig
from millrace.errors import StateError
from millrace.kafka.commit_metadata import UNKNOWN_TIME
from millrace.state import KeyValueStore, TaskPosition, TaskState
from millrace.state.read_only import ReadOnlyKeyValueStore
from millrace.task.collector import Collector
from millrace.task.failures import FailureHandler
from millrace.task.input import InputBatch
from millrace.task.operators import create_processor
from millrace.task.processing.runtime import ProcessingRuntime, system_time_ms
from millrace.task.processor import Processor, TaskContext, drop_null_keys
from millrace.task.records import Records
from millrace.task.source import Source
from millrace.task.task_stores import TaskStores
from millrace.topology.operators import TableSource
from millrace.topology.parts import GlobalStore
from millrace.topology.timestamp_extractors import FailOnInvalidTimestamp
from millrace.topology.topic_partition import TopicPartition


class GlobalState:
    """An open global store to which a topic's records are applied while others read it.

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
        self._guard = _Guard(part.store.name)
        self._source = Source(part.source, self.failures, {}, FailOnInvalidTimestamp())
        self._is_table = isinstance(part.processor.operator, TableSource)
        self._context = TaskContext(
            config=config,
            failures=self.failures,
            stores=TaskStores.of([part.processor], [part.store], state.store, merges=config.merges_updates),
            processing=ProcessingRuntime(stream_time_ms=UNKNOWN_TIME, wall_clock_ms=system_time_ms),
            task=f"of global store {part.store.name}",
        )
        self._processor = self._open_processor()

    @property
    def store(self) -> KeyValueStore:
        """The store, for readers in any thread."""
        return ReadOnlyKeyValueStore(self.part.store.name, self._writable_store, self._guard)

    @property
    def position(self) -> TaskPosition:
        """The position up to which records were applied."""
        return self._state.position

    def apply(self, batch: InputBatch, position: TaskPosition, collector: Collector) -> None:
        """Applies records in their order and advances the position, in one write.

        Args:
            batch: the records.
            position: the position behind them.
            collector: takes the dead-letter records.

        Raises:
            MillraceError: a record could not be read or processed, and its handler does not continue; nothing of the
                batch was applied then.
        """
        with self._guard.lock:
            self.failures.begin_batch(batch)
            self.failures.node = self.part.source.name
            try:
                if len(batch):
                    self._process(batch)
                self._state.check_reads()
                self._state.commit(position)
                self.failures.end_batch(collector)
            except BaseException:
                self._state.rollback()
                if self._processor is not None:
                    self._processor.reset()
                raise

    @property
    def is_incomplete(self) -> bool:
        """Whether a rebuild of the store was begun, and failed."""
        return self._guard.is_incomplete

    @contextmanager
    def rebuilding(self) -> Iterator[None]:
        """Empties the store to rebuild it in the block; readers wait for the end of the block, and fail if it fails."""
        with self._guard.lock:
            self._guard.is_incomplete = True
            self.end_scans()
            self._state.wipe()
            self._processor = self._open_processor()
            yield
            self._guard.is_incomplete = False

    def end_scans(self) -> None:
        """Ends the open scans of the store's own processor, before the store is closed."""
        self._context.processing.scans.end(self._context.task)

    def _open_processor(self) -> Processor | None:
        return None if self._is_table else create_processor(self.part.processor, self._context)

    def _writable_store(self) -> KeyValueStore:
        return self._state.key_value_store(self.part.store.name)

    def _process(self, batch: InputBatch) -> None:
        records = self._source.read_as_recorded(batch)
        self.failures.node = self.part.processor.name
        if self._processor is not None:
            self._context.processing.begin_batch(batch)
            self._processor.process(records)
            self._context.processing.end_batch()
        else:
            self._write(batch, drop_null_keys(records, self.failures))

    def _write(self, batch: InputBatch, records: Records) -> None:
        kept = batch.take(records.origin)
        self._writable_store().put_many(kept.keys.to_pylist(), kept.values.to_pylist(), kept.timestamp)


class _Guard:
    """The lock that keeps readers out of a store while it is written or incomplete."""

    def __init__(self, store: str) -> None:
        self.lock = threading.RLock()
        self.is_incomplete = False
        self._store = store

    def __enter__(self) -> None:
        self.lock.acquire()
        if self.is_incomplete:
            self.lock.release()
            raise StateError(
                f"The global store {self._store} is not complete: building it again failed.",
                remedy="none needed: it is built again before the next batch",
            )

    def __exit__(self, *_: object) -> None:
        self.lock.release()


def behind(position: TaskPosition, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Returns the end offsets that a position has not reached."""
    return {
        topic_partition: end for topic_partition, end in ends.items() if position.inputs.get(topic_partition, -1) < end
    }
