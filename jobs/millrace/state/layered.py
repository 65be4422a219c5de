"""The base of all stores: layers over a bytes store, a changelog, and totals."""

from __future__ import annotations

from collections.abc import Iterator

from millrace.state.bytes_store import BytesStore
from millrace.state.changelog import Changelog, ChangelogBatch
from millrace.state.contents import StoreRecord
from millrace.state.layout import unpack_value
from millrace.state.record_file import Headers
from millrace.state.stores import StoreMetrics


class LayeredStore:
    """The base of the stores of a task.

    Args:
        name: name of the store.
        committed: the bytes store.
        changelog: what the writes are remembered in, ``None`` where the store is not logged.
    """

    def __init__(self, name: str, committed: BytesStore, changelog: Changelog | None) -> None:
        self._name = name
        self._committed = committed
        self._changelog = changelog
        self._metrics = StoreMetrics()

    @property
    def name(self) -> str:
        """Name of the store."""
        return self._name

    @property
    def metrics(self) -> StoreMetrics:
        """Running totals since the store was opened."""
        return self._metrics

    def uncommitted_bytes(self) -> int:
        """Returns the bytes of the overlay's keys and last values. Takes a walk over the overlay."""
        return 0

    def size(self) -> tuple[int, int]:
        """Returns the number of committed entries and their bytes, both approximate."""
        return self._committed.size()

    def drain_changelog(self) -> ChangelogBatch | None:
        """Returns the writes since the last drain."""
        return self._changelog.drain() if self._changelog is not None else None

    @property
    def has_undrained_writes(self) -> bool:
        """Whether there are writes to drain."""
        return self._changelog is not None and not self._changelog.is_empty

    @property
    def record_headers(self) -> Headers | None:
        """Headers of the changelog's records that have a value."""
        return None

    def records(self) -> Iterator[StoreRecord]:
        """Yields all committed entries, as changelog records that make an empty store equal to this one."""
        for key, packed in self._committed.scan(b""):
            yield key, *unpack_value(packed)

    def commit_failed(self) -> None:
        """Discards what was staged, after the commit has failed: the overlay stays."""
        self._committed.discard_staged()
