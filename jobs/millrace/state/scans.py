"""Scans of a database that can be ended while a reader still holds them.

RocksDB keeps its files and its lock as long as an iterator is there, so a scan that user code holds would make the
database unopenable in the same process.
"""

from __future__ import annotations

from collections.abc import Iterator

from millrace.errors import StateError


class DatabaseScan:
    """A scan of a store, with RocksDB's iterator.

    Args:
        store: name of the store.
        items: its entries.
    """

    __slots__ = ("__weakref__", "_store", "items")

    def __init__(self, store: str, items: Iterator[tuple[bytes, bytes]]) -> None:
        self._store = store
        self.items = items

    def end(self) -> None:
        """Releases RocksDB's iterator. A reader that asks for another entry gets the error of a closed scan."""
        self.items = _ended(self._store)


def closed_scan(store: str) -> StateError:
    """Returns the error of a scan that is used after its store was closed."""
    return StateError(
        f"A scan of store {store} was used after the store had been closed.",
        remedy="read a scan to its end, or let it go, where it was begun: in process() or in the punctuation",
    )


def _ended(store: str) -> Iterator[tuple[bytes, bytes]]:
    while True:
        raise closed_scan(store)
        yield
