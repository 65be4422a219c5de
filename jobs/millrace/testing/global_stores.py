"""The global stores of the test driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from millrace.config import StreamsConfig
from millrace.metrics import DropReason
from millrace.state import KeyValueStore, TaskPosition, TaskState
from millrace.task.collector import OutputBatch, OutputBuffer
from millrace.task.global_state import GlobalState
from millrace.testing.topics import RawRecord, input_batch
from millrace.topology.parts import GlobalStore


class DrivenGlobalStore:
    """A global store in memory."""

    def __init__(self, part: GlobalStore, config: StreamsConfig) -> None:
        self.spec = part.store
        self.state = TaskState.open(None, (part.store,))
        self._topic = part.topic
        self._global_state = GlobalState(part, config, self.state)
        self._end = 0
        self._dead_letters = OutputBuffer()

    @property
    def store(self) -> KeyValueStore:
        """The store, for reading."""
        return self._global_state.store

    @property
    def dropped(self) -> Counter[DropReason]:
        """The records that were dropped of the last ones."""
        return self._global_state.failures.dropped

    def apply(self, records: Sequence[RawRecord]) -> list[OutputBatch]:
        """Takes records at the topic's end; returns the dead-letter records."""
        batch = input_batch(
            (self._topic,), [(self._topic, self._end + index, record) for index, record in enumerate(records)]
        )
        end = self._end + len(records)
        self._global_state.apply(batch, TaskPosition(inputs={(self._topic, 0): end}), self._dead_letters)
        self._end = end
        return self._dead_letters.take()
