"""One side of a stream-stream join as seen within a batch: the stored records, and those of the batch so far."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from millrace.serdes import Serde
from millrace.state import JoinWindowStore
from millrace.task.serialization import or_default
from millrace.task.task_stores import TaskStores

_UNREAD: Final[Any] = object()


class _Entries:
    """The records of one key: timestamps ascending, value bytes, and the values once a caller has asked for them."""

    __slots__ = ("data", "objects", "times")

    def __init__(self, times: list[int], data: list[bytes]) -> None:
        self.times = times
        self.data = data
        self.objects: list[Any] = [_UNREAD] * len(data)


class JoinBuffer:
    """The records of one side, which those of the other side look up.

    A batch begins with :meth:`load`, which reads each key once, and ends with :meth:`flush`, which writes what came.

    Args:
        store: name of the side's store.
        stores: the task's stores.
    """

    def __init__(self, store: str, stores: TaskStores) -> None:
        opened = stores.open(store)
        assert isinstance(opened, JoinWindowStore)
        spec = stores.specs[store]
        self._store = opened
        self.key_serde: Serde = or_default(spec.key_serde)
        self.value_serde: Serde = or_default(spec.value_serde)
        self._observed = opened.observed_stream_time
        self._loaded: dict[bytes, _Entries] = {}
        self._keys: list[bytes] = []
        self._values: list[bytes | None] = []
        self._times: list[int] = []
        self._origins: list[int] = []

    def load(self, keys: Iterable[bytes], from_time: int, to_time: int) -> None:
        """Begins a batch, and reads the records that it may look up.

        Args:
            keys: the keys that will be looked up.
            from_time: the earliest timestamp that will be asked for, milliseconds.
            to_time: the latest one.
        """
        distinct = list(dict.fromkeys(keys))
        # As in Kafka Streams a range that ends before 1970 is taken to end at its first millisecond.
        found = self._store.fetch_many(distinct, max(from_time, 0), max(to_time, 0))
        self._loaded = {
            key: _Entries(entries.times, entries.values) for key, entries in zip(distinct, found, strict=True)
        }
        self._observed = self._store.observed_stream_time
        self._clear()

    def partners(self, key: bytes, from_time: int, to_time: int) -> list[tuple[int, Any]]:
        """Returns timestamps and values of a key's records in ``[from_time, to_time]`` that have not expired."""
        entries = self._loaded[key]
        times = entries.times
        if not times:
            return []
        first = bisect_left(times, max(from_time, self._observed - self._store.retention_ms + 1, 0))
        last = bisect_right(times, max(to_time, 0))
        if first >= last:
            return []
        objects = entries.objects
        for index in range(first, last):
            if objects[index] is _UNREAD:
                objects[index] = self.value_serde.deserialize(entries.data[index])
        return list(zip(times[first:last], objects[first:last], strict=True))

    def put(self, key: bytes, value: bytes | None, timestamp: int, origin: int) -> None:
        """Adds a record; one without a value only goes to the changelog, as in Kafka Streams.

        Args:
            key: key bytes.
            value: value bytes.
            timestamp: milliseconds.
            origin: the row of the task's input that it comes from.
        """
        self._origins.append(origin)
        self._keys.append(key)
        self._values.append(value)
        self._times.append(timestamp)
        if value is not None or self._store.observes_tombstones:
            self._observed = max(self._observed, timestamp)
        if value is None:
            return
        entries = self._loaded.get(key)
        if entries is not None:
            index = bisect_right(entries.times, timestamp)
            entries.times.insert(index, timestamp)
            entries.data.insert(index, value)
            entries.objects.insert(index, _UNREAD)

    def flush(self) -> list[int]:
        """Ends a batch; returns the origins of the records that were too old to be stored."""
        expired = self._store.put_many(self._keys, self._values, np.array(self._times, dtype=np.int64))
        origins = [self._origins[index] for index in expired.tolist()]
        self._loaded = {}
        self._clear()
        return origins

    def _clear(self) -> None:
        self._keys, self._values, self._times, self._origins = [], [], [], []
