"""The iterators that stores return to processors, which the task ends when it closes the stores."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

import structlog

from millrace.state.scans import closed_scan

_log = structlog.get_logger(__name__)


class StoreScan:
    """An iterator over entries of a store. It may be closed before its end, also as a context manager.

    Args:
        items: the entries.
        node: name of the node whose processor reads them.
        store: name of the store.
    """

    __slots__ = ("__weakref__", "_ended", "_items", "node", "store")

    def __init__(self, items: Iterator[Any], node: str, store: str) -> None:
        self._items: Iterator[Any] | None = items
        self._ended = False
        self.node = node
        self.store = store

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        """Returns the next entry.

        Raises:
            StateError: the store was closed before the scan had ended.
        """
        if self._items is None:
            if self._ended:
                raise closed_scan(self.store)
            raise StopIteration
        try:
            return next(self._items)
        except StopIteration:
            self._items = None
            raise

    def close(self) -> None:
        """Ends the scan: it has no further entry. Idempotent."""
        self._items = None

    @property
    def is_open(self) -> bool:
        """Whether the scan has neither reached its end nor been closed."""
        return self._items is not None

    def end(self) -> None:
        """Ends the scan with its store: any request for a further entry is an error."""
        self._ended = self._ended or self.is_open
        self._items = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class OpenScans:
    """The scans of a task's processors that are still open."""

    def __init__(self) -> None:
        self._scans: WeakSet[StoreScan] = WeakSet()

    def begin(self, items: Iterator[Any], *, node: str, store: str) -> StoreScan:
        """Returns a scan over ``items``."""
        scan = StoreScan(items, node, store)
        self._scans.add(scan)
        return scan

    def end(self, task: str) -> None:
        """Ends the open scans, before their stores are closed, and logs the processors that left them open."""
        for scan in [scan for scan in self._scans if scan.is_open]:
            _log.warning("open scan ended with its store", task=task, node=scan.node, store=scan.store)
            scan.end()
