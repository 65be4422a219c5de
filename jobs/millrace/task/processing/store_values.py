"""The conversion of a store's keys and values to bytes and back, for the typed stores of processors."""

from __future__ import annotations

from collections.abc import Iterator
from operator import index
from typing import Any

import numpy as np

from millrace.errors import ProcessingError
from millrace.metrics import DropReason
from millrace.state.layout import Int64Array
from millrace.task.aggregation.steps import result_of
from millrace.task.processing.runtime import ProcessingRuntime
from millrace.task.processing.scans import StoreScan
from millrace.task.processor import TaskContext
from millrace.task.serialization import or_default, read_stored
from millrace.topology.aggregators import AvgAggregator, BuiltInAggregator, StructAggregator
from millrace.topology.state_stores import ValueAndTimestamp


class StoreValues:
    """The serdes of one store, and whether its values carry timestamps.

    Args:
        name: name of the store.
        task: the task's surroundings.
        runtime: knows the timestamp of the record at hand.
        node: name of the node that uses the store.
    """

    def __init__(self, name: str, task: TaskContext, runtime: ProcessingRuntime, *, node: str) -> None:
        spec = task.global_stores[name] if name in task.global_stores else task.stores.specs[name]
        self.name = name
        self._node = node
        self.key_serde = or_default(spec.key_serde)
        self._value_serde = or_default(spec.value_serde)
        self._timestamped = spec.timestamped
        self._runtime = runtime
        self._failures = task.failures
        aggregator = task.stores.aggregators.get(name)
        self._aggregator = aggregator if isinstance(aggregator, BuiltInAggregator | StructAggregator) else None

    def key(self, key: Any) -> bytes:
        """Returns the bytes of a key.

        Raises:
            ProcessingError: the key is ``None``.
        """
        if key is None:
            raise ProcessingError(f"Store {self.name} was asked for the key None.", remedy="leave such records out")
        return self.key_serde.serialize(key)

    def scan(self, items: Iterator[Any]) -> StoreScan:
        """Returns the user's iterator over entries, which ends with the store."""
        return self._runtime.scans.begin(items, node=self._node, store=self.name)

    def optional_key(self, key: Any) -> bytes | None:
        """Returns the key bytes of a bound; ``None`` leaves it open."""
        return None if key is None else self.key_serde.serialize(key)

    def read_key(self, data: bytes) -> Any:
        """Returns a stored key as the user sees it.

        Raises:
            StateError: it cannot be read.
        """
        return read_stored(self.key_serde, data, store=self.name)

    def value(self, data: bytes, timestamp: int) -> Any:
        """Returns a stored value as the user sees it.

        Raises:
            StateError: it cannot be read.
        """
        value = read_stored(self._value_serde, data, store=self.name)
        if self._aggregator is not None:
            value = result_of(self._aggregator, value)
        return ValueAndTimestamp(value, timestamp) if self._timestamped else value

    def stored(self, value: Any) -> tuple[bytes | None, Int64Array]:
        """Returns value bytes and timestamp of a value that the user writes.

        Raises:
            ProcessingError: the store is a timestamped one and the value has no timestamp, or one before the epoch;
                or the store contains intermediate states of an aggregation.
        """
        timestamp = self._runtime.timestamp_ms
        if value is not None and self._timestamped:
            if not isinstance(value, ValueAndTimestamp):
                raise ProcessingError(
                    f"Store {self.name} is timestamped, and was given {type(value).__name__}.",
                    remedy="write a ValueAndTimestamp",
                )
            value, timestamp = value.value, self.time(value.timestamp, what="the timestamp")
        if isinstance(self._aggregator, AvgAggregator | StructAggregator):
            raise ProcessingError(
                f"Store {self.name} holds what an aggregation needs to go on, not its results.",
                remedy="write to a store of your own",
            )
        data = None if value is None else self._value_serde.serialize(value)
        return data, np.array([timestamp], dtype=np.int64)

    def time(self, time_ms: int, *, what: str) -> int:
        """Returns a time that the user writes, checked: changelog records and windows cannot be before the epoch.

        Raises:
            ProcessingError: it is no whole number, or negative.
        """
        try:
            time = index(time_ms)
        except TypeError:
            time = -1
        if time < 0:
            raise ProcessingError(
                f"Store {self.name} was given {what} {time_ms!r}.",
                remedy="give it milliseconds since the epoch, a whole number of 0 or more",
            )
        return time

    def count_expired(self, count: int) -> None:
        """Counts writes that the store dropped because their windows have expired."""
        if count:
            self._failures.drop(DropReason.EXPIRED_WINDOW, [self._runtime.origin], count=count)
