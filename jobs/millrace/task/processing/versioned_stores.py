"""Versioned key-value stores as user-written processors see them."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.state import NOT_PUT, VersionedKeyValueStore
from millrace.state import VersionedRecord as StoredVersion
from millrace.task.processing.store_values import StoreValues
from millrace.topology.state_stores import VersionedRecord


class TypedVersionedStore:
    """The typed form of :class:`millrace.topology.state_stores.VersionedKeyValueStore`.

    Args:
        store: the bytes.
        values: their serdes.
    """

    def __init__(self, store: VersionedKeyValueStore, values: StoreValues) -> None:
        self._store = store
        self._values = values

    @property
    def name(self) -> str:
        """The name of the store."""
        return self._values.name

    def put(self, key: Any, value: Any, timestamp: int) -> int:
        """Writes a version of a key."""
        data, _ = self._values.stored(value)
        time = self._values.time(timestamp, what="the timestamp")
        codes = self._store.put_many([self._values.key(key)], [data], np.array([time], dtype=np.int64))
        self._values.count_expired(int((codes == NOT_PUT).sum()))
        return int(codes[0])

    def delete(self, key: Any, timestamp: int) -> VersionedRecord[Any] | None:
        """Writes a tombstone for a key; returns the version before."""
        expired = self._store.metrics.expired
        time = self._values.time(timestamp, what="the timestamp")
        before = self._store.delete(self._values.key(key), time)
        self._values.count_expired(self._store.metrics.expired - expired)
        return None if before is None else self._typed(before)

    def get(self, key: Any, as_of: int | None = None) -> VersionedRecord[Any] | None:
        """Returns the newest version of a key, or the one as of a time."""
        found = self._store.get(self._values.key(key), as_of)
        return None if found is None else self._typed(found)

    def versions(self, key: Any, from_time: int, to_time: int) -> list[VersionedRecord[Any]]:
        """Returns the versions of a key in a range of time."""
        return [self._typed(version) for version in self._store.versions(self._values.key(key), from_time, to_time)]

    def _typed(self, version: StoredVersion) -> VersionedRecord[Any]:
        value = self._values.value(version.value, version.timestamp)
        return VersionedRecord(value, version.timestamp, version.valid_to)
