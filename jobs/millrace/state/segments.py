"""The live windows of a store: segments, retention and the newest start, as in Kafka Streams' segmented stores.

Source: ``AbstractRocksDBSegmentedBytesStore`` and ``AbstractSegments``. A segment is ``max(retention / 2, 60 s)`` long;
it is dropped as a whole once it lies before the segment of ``observed stream time - retention``. A window in a live
segment is readable while its start is later than ``observed stream time - retention``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from millrace.state.layout import NO_TIMESTAMP, Int64Array, big_endian

MIN_SEGMENT_INTERVAL_MS = 60_000
_METADATA = struct.Struct(">qqq")
_METADATA_WITHOUT_INTERVAL = struct.Struct(">qq")


@dataclass(frozen=True, kw_only=True)
class Segments:
    """The stream time and the live segments of a window store.

    Args:
        retention_ms: how long a window is kept after its start.
        observed_stream_time: newest window start seen, -1 before the first.
        first_kept: first segment that may still have data in the database.
        exact: a window that is not readable is not written either, as in Kafka Streams' stores in memory; otherwise
            it is, while its segment is live.
        segment_interval_ms: length of a segment; ``None`` takes Kafka Streams' for the retention. A store keeps the one
            it began with, whatever its retention becomes: its rows stay in their segments.
    """

    retention_ms: int
    observed_stream_time: int = NO_TIMESTAMP
    first_kept: int = 0
    exact: bool = False
    segment_interval_ms: int | None = None

    @property
    def interval_ms(self) -> int:
        """Length of a segment, milliseconds."""
        return self.segment_interval_ms or max(self.retention_ms // 2, MIN_SEGMENT_INTERVAL_MS)

    @property
    def first_readable_start(self) -> int:
        """First start of a window that readers see, milliseconds; earlier ones have expired."""
        return self.observed_stream_time - self.retention_ms + 1

    @property
    def first_live(self) -> int:
        """Number of the first segment that has not expired."""
        return max(self.observed_stream_time - self.retention_ms, 0) // self.interval_ms

    def segment_of(self, start: int) -> int:
        """Returns the number of the segment of a window start."""
        return start // self.interval_ms

    def live_rows(self, starts: Int64Array) -> npt.NDArray[np.bool_] | None:
        """Returns which of the starts, written one after the other, have not expired; ``None`` if none has expired."""
        if self.exact:
            latest = np.maximum(np.maximum.accumulate(starts), self.observed_stream_time)
            unexpired: npt.NDArray[np.bool_] = starts > latest - self.retention_ms
            return None if unexpired.all() else unexpired
        oldest = int(starts.min())
        newest = max(int(starts.max()), self.observed_stream_time)
        if self.segment_of(oldest) >= max(newest - self.retention_ms, 0) // self.interval_ms:
            return None
        observed = np.maximum(np.maximum.accumulate(starts), self.observed_stream_time)
        first_live = np.maximum(observed - self.retention_ms, 0) // self.interval_ms
        live: npt.NDArray[np.bool_] = starts // self.interval_ms >= first_live
        return None if live.all() else live

    def after(self, newest_start: int) -> Self:
        """Returns the segments after a write of a window that starts at ``newest_start``."""
        return self if newest_start <= self.observed_stream_time else replace(self, observed_stream_time=newest_start)

    def expired_range(self) -> tuple[bytes, bytes] | None:
        """Returns the range of local keys of expired segments that may still have data; ``None`` if there are none."""
        if self.first_live <= self.first_kept:
            return None
        return big_endian(self.first_kept), big_endian(self.first_live)

    def without_expired(self) -> Self:
        """Returns the segments after the deletion of the expired ones."""
        return replace(self, first_kept=max(self.first_kept, self.first_live))

    def to_bytes(self) -> bytes:
        """Returns the metadata that must survive a restart."""
        return _METADATA.pack(self.observed_stream_time, self.first_kept, self.interval_ms)

    def restored(self, data: bytes | None) -> Self:
        """Returns the segments with the metadata of :meth:`to_bytes`; ``None`` is that of a new store."""
        if data is None:
            return self
        if len(data) == _METADATA_WITHOUT_INTERVAL.size:
            observed, first_kept = _METADATA_WITHOUT_INTERVAL.unpack(data)
            return replace(self, observed_stream_time=observed, first_kept=first_kept)
        observed, first_kept, interval_ms = _METADATA.unpack(data)
        return replace(self, observed_stream_time=observed, first_kept=first_kept, segment_interval_ms=interval_ms)
