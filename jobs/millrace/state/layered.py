"""What the stores have in common: layers over a bytes store, a changelog, and totals."""

from __future__ import annotations

from collections.abc import Iterator

from millrace.state.bytes_store import BytesStore
from millrace.state.changelog import Changelog, ChangelogBatch
from millrace.state.contents import StoreRecord
from millrace.state.layout import unpack_value
from millrace.state.record_file import Headers
from millrace.state.stores import StoreMetrics


class LayeredStore:
    """Base of the stores of a task.

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
        """Keys and values of the overlay, bytes: of each key the last write. A walk over it."""
        return 0

    def size(self) -> tuple[int, int]:
        """Returns the committed entries and bytes, both approximate."""
        return self._committed.size()

    def drain_changelog(self) -> ChangelogBatch | None:
        """Returns the writes since the last drain."""
        return self._changelog.drain() if self._changelog is not None else None

    @property
    def has_undrained_writes(self) -> bool:
        """Whether a drain would give something."""
        return self._changelog is not None and not self._changelog.is_empty

    @property
    def record_headers(self) -> Headers | None:
        """Headers of the changelog's records that have a value."""
        return None

    def records(self) -> Iterator[StoreRecord]:
        """Everything that is committed, as changelog records that make an empty store equal to this one."""
        for key, packed in self._committed.scan(b""):
            yield key, *unpack_value(packed)

    def commit_failed(self) -> None:
        """The commit failed: the overlay is as it was."""
        self._committed.discard_staged()
