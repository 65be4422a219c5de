"""The read-only view of a store: global stores, for every processor but their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import islice
from typing import NoReturn

from millrace.errors import StateError
from millrace.state.layout import Int64Array
from millrace.state.stores import KeyValueStore, StoreMetrics

_READ_ENTRIES = 1_000


class ReadOnlyKeyValueStore:
    """A :class:`~millrace.state.stores.KeyValueStore` that refuses writes. Thread-safe.

    Args:
        name: name of the store.
        store: returns the current store; called at each access.
        guard: held during each access, and by the writer of the store.
    """

    def __init__(self, name: str, store: Callable[[], KeyValueStore], guard: AbstractContextManager[object]) -> None:
        self._name = name
        self._store = store
        self._guard = guard

    @property
    def name(self) -> str:
        """Name of the store."""
        return self._name

    @property
    def metrics(self) -> StoreMetrics:
        """Running totals since the store was opened."""
        return self._store().metrics

    def get(self, key: bytes) -> tuple[bytes, int] | None:
        """Returns the value and timestamp of one key."""
        with self._guard:
            return self._store().get(key)

    def get_many(self, keys: list[bytes]) -> tuple[list[bytes | None], Int64Array]:
        """Returns the values and timestamps of ``keys``, in their order, all of the same moment."""
        with self._guard:
            return self._store().get_many(keys)

    def range(self, from_key: bytes | None, to_key: bytes | None) -> Iterator[tuple[bytes, bytes, int]]:
        """Yields (key, value, timestamp) with ``from_key <= key <= to_key``, by key bytes; ``None`` is an open end."""
        with self._guard:
            entries = self._store().range(from_key, to_key)
        while True:
            with self._guard:
                some = list(islice(entries, _READ_ENTRIES))
            if not some:
                return
            yield from some

    def all(self) -> Iterator[tuple[bytes, bytes, int]]:
        """Yields (key, value, timestamp) of every key, in the order of the key bytes."""
        return self.range(None, None)

    def approximate_num_entries(self) -> int:
        """Returns the approximate number of keys."""
        with self._guard:
            return self._store().approximate_num_entries()

    def put_many(self, keys: list[bytes], values: list[bytes | None], timestamps: Int64Array) -> NoReturn:  # noqa: ARG002
        """Refuses the write, by an error.

        Raises:
            StateError: always.
        """
        raise StateError(
            f"The global store {self.name} can only be read: its topic alone changes it.",
            remedy="write to the topic instead; the change comes back in a later batch",
        )
