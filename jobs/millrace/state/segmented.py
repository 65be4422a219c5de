"""The base of the stores whose entries expire: their segments, at the last commit and now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from millrace.state.bytes_store import BytesStore
from millrace.state.changelog import Changelog
from millrace.state.contents import StoreRecord
from millrace.state.layered import LayeredStore
from millrace.state.layout import SEGMENT_BYTES, big_endian, unpack_value
from millrace.state.segments import Segments

SegmentsT = TypeVar("SegmentsT", bound=Segments)


class SegmentedStore(LayeredStore, Generic[SegmentsT]):
    """The base of the window, session and versioned stores of a task.

    Args:
        name: name of the store.
        committed: the bytes store.
        changelog: what the writes are remembered in, ``None`` where the store is not logged.
        segments: retention, and the stream time as the database has it.
    """

    def __init__(self, name: str, committed: BytesStore, changelog: Changelog | None, segments: SegmentsT) -> None:
        super().__init__(name, committed, changelog)
        self._segments = segments
        self._committed_segments = segments
        self._committed_expired = 0

    def rollback(self) -> None:
        """Discards the uncommitted writes."""
        self._segments = self._committed_segments
        self._metrics.expired = self._committed_expired
        if self._changelog is not None:
            self._changelog.clear()

    def records(self) -> Iterator[StoreRecord]:
        """Yields all committed, unexpired entries, by segment and key."""
        for local_key, packed in self._committed.scan(big_endian(self._committed_segments.first_live)):
            yield local_key[SEGMENT_BYTES:], *unpack_value(packed)

    def _metadata(self) -> bytes | None:
        """Returns the metadata of a commit that deletes the expired segments; ``None`` if it has not changed."""
        after = self._segments.without_expired()
        return after.to_bytes() if after != self._committed_segments else None

    def _settle(self) -> None:
        """Makes the current segments the committed ones, after the commit has succeeded."""
        self._segments = self._committed_segments = self._segments.without_expired()
        self._committed_expired = self._metrics.expired
