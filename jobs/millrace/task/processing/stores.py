"""Key-value stores as user-written processors see them, and the opening of typed stores of every kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from millrace.errors import ProcessingError
from millrace.serdes import Serde
from millrace.state import KeyValueStore, SessionStore, VersionedKeyValueStore, WindowStore
from millrace.task.processing.runtime import ProcessingRuntime
from millrace.task.processing.session_stores import TypedSessionStore
from millrace.task.processing.store_values import StoreValues
from millrace.task.processing.versioned_stores import TypedVersionedStore
from millrace.task.processing.window_stores import TypedWindowStore
from millrace.task.processor import TaskContext

Entries = Iterator[tuple[Any, Any]]


class ReadOnlyTypedKeyValueStore:
    """The typed form of :class:`millrace.topology.state_stores.ReadOnlyKeyValueStore`.

    Args:
        store: the bytes.
        values: their serdes.
    """

    def __init__(self, store: KeyValueStore, values: StoreValues) -> None:
        self._store = store
        self._values = values

    @property
    def name(self) -> str:
        """The name of the store."""
        return self._values.name

    def get(self, key: Any) -> Any:
        """Returns the value of a key."""
        found = self._store.get(self._values.key(key))
        return None if found is None else self._values.value(*found)

    def range(self, from_key: Any, to_key: Any) -> Entries:
        """Returns the entries in a range of keys."""
        first, last = self._values.optional_key(from_key), self._values.optional_key(to_key)
        if first is not None and last is not None and first > last:
            return self._values.scan(iter(()))
        return self._typed(self._store.range(first, last))

    def reverse_range(self, from_key: Any, to_key: Any) -> Entries:
        """Returns the entries in a range of keys, from the end."""
        return self._values.scan(reversed(list(self.range(from_key, to_key))))

    def all(self) -> Entries:
        """Returns all entries."""
        return self._typed(self._store.all())

    def reverse_all(self) -> Entries:
        """Returns all entries, from the end."""
        return self._values.scan(reversed(list(self.all())))

    def prefix_scan(self, prefix: Any, prefix_serde: Serde | None = None) -> Entries:
        """Returns the entries whose keys begin with a prefix."""
        start = (prefix_serde or self._values.key_serde).serialize(prefix)
        return self._typed(_while_prefixed(self._store.range(start, None), start))

    def approximate_num_entries(self) -> int:
        """Returns the approximate number of keys."""
        return self._store.approximate_num_entries()

    def _typed(self, entries: Iterator[tuple[bytes, bytes, int]]) -> Entries:
        read_key = self._values.read_key
        return self._values.scan(
            (read_key(key), self._values.value(value, timestamp)) for key, value, timestamp in entries
        )


class TypedKeyValueStore(ReadOnlyTypedKeyValueStore):
    """The typed form of :class:`millrace.topology.state_stores.KeyValueStore`."""

    def put(self, key: Any, value: Any) -> None:
        """Writes the value of a key."""
        data, timestamps = self._values.stored(value)
        self._store.put_many([self._values.key(key)], [data], timestamps)

    def put_if_absent(self, key: Any, value: Any) -> Any:
        """Writes the value of a key unless it has one; returns the value before."""
        before = self.get(key)
        if before is None:
            self.put(key, value)
        return before

    def put_all(self, entries: Iterable[tuple[Any, Any]]) -> None:
        """Writes several values."""
        for key, value in entries:
            self.put(key, value)

    def delete(self, key: Any) -> Any:
        """Deletes a key; returns its value."""
        before = self.get(key)
        self.put(key, None)
        return before


def open_typed_store(name: str, task: TaskContext, runtime: ProcessingRuntime, *, node: str) -> Any:
    """Returns the store ``name`` for a node, typed by its serdes.

    Raises:
        ProcessingError: it is the buffer of an operator, which no other process can read.
    """
    store = task.stores.open(name)
    values = StoreValues(name, task, runtime, node=node)
    if isinstance(store, KeyValueStore):
        return TypedKeyValueStore(store, values)
    if isinstance(store, WindowStore):
        return TypedWindowStore(store, values, window_size_ms=task.stores.specs[name].window_size_ms)
    if isinstance(store, VersionedKeyValueStore):
        return TypedVersionedStore(store, values)
    if isinstance(store, SessionStore):
        return TypedSessionStore(store, values)
    raise ProcessingError(
        f"Store {name} is the buffer of an operator and cannot be used by a processor.",
        remedy="give the processor a store of its own",
    )


def open_global_store(
    name: str, task: TaskContext, runtime: ProcessingRuntime, *, node: str
) -> ReadOnlyTypedKeyValueStore:
    """Returns the global store ``name`` for a node, read-only."""
    return ReadOnlyTypedKeyValueStore(task.open_global_store(name), StoreValues(name, task, runtime, node=node))


def _while_prefixed(entries: Iterator[tuple[bytes, bytes, int]], start: bytes) -> Iterator[tuple[bytes, bytes, int]]:
    for entry in entries:
        if not entry[0].startswith(start):
            return
        yield entry
