"""Reading a task's database as it is, without taking part in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rocksdict import AccessType, Options, Rdict

from millrace.errors import StateError
from millrace.state.layout import NO_TIMESTAMP, SEGMENT_BYTES
from millrace.state.position import TaskPosition
from millrace.state.rocksdb import METADATA_FAMILY, STORE_FAMILY_PREFIX, DatabaseOptions, RocksDatabase, entries
from millrace.state.segments import Segments
from millrace.state.task_state import POSITION_KEY, SEGMENTS_KEY
from millrace.state.versioned_layout import HistorySegments
from millrace.topology.stores import StoreKind, StoreSpec

SEQUENCE_BYTES = 4
"""Behind the segments of a join's buffer: the number of its last entry."""
_SEGMENTED = frozenset({StoreKind.WINDOW, StoreKind.SESSION, StoreKind.VERSIONED})
_HISTORY = b"\1"


class ReadOnlyDatabase:
    """A database that no process writes meanwhile. Close it.

    Args:
        path: its directory.

    Raises:
        StateError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        options = Options(raw_mode=True)
        try:
            families = {name: Options(raw_mode=True) for name in Rdict.list_cf(str(path), options) if name != "default"}
            self._database = Rdict(str(path), options, column_families=families, access_type=AccessType.read_only())
        except Exception as error:  # rocksdict raises plain Exception
            raise StateError(
                f"The state database {path} cannot be opened: {error}",
                remedy="if it is damaged, delete the directory: it is restored from the changelogs",
            ) from error
        self._families = {name: self._database.get_column_family(name) for name in families}

    @property
    def position(self) -> TaskPosition:
        """The position of the stores."""
        data = self._families[METADATA_FAMILY].get(POSITION_KEY) if METADATA_FAMILY in self._families else None
        return TaskPosition() if data is None else TaskPosition.from_bytes(data)

    def segments(self, store: StoreSpec) -> Segments | None:
        """Returns the segments of a store whose rows expire, ``None`` where they do not."""
        if store.kind not in _SEGMENTED or METADATA_FAMILY not in self._families:
            return None
        data = self._families[METADATA_FAMILY].get(SEGMENTS_KEY + store.name.encode())
        if data is not None and store.retains_duplicates:
            data = data[:-SEQUENCE_BYTES]
        return new_segments(store).restored(data)

    def rows(self, store: str) -> Iterator[tuple[bytes, bytes]]:
        """Yields all rows of a store, by key.

        Raises:
            StateError: a file is damaged; the rows before it have come.
        """
        family = self._families.get(STORE_FAMILY_PREFIX + store)
        if family is None:
            return
        try:
            yield from entries(family)
        except Exception as error:  # rocksdict raises plain Exception
            raise StateError(f"{error}", remedy="delete the task's directory: it is restored") from error

    def close(self) -> None:
        """Closes it."""
        for family in self._families.values():
            family.close()
        self._families = {}
        self._database.close()


@contextmanager
def opened(path: Path) -> Iterator[ReadOnlyDatabase]:
    """Opens a database until the body ends."""
    database = ReadOnlyDatabase(path)
    try:
        yield database
    finally:
        database.close()


@dataclass(frozen=True)
class Rows:
    """The layout by which the rows of a store are read.

    Args:
        store: the store.
        first_live: first segment that has not expired; 0 where rows do not expire.
    """

    store: StoreSpec
    first_live: int

    def is_live(self, row: bytes) -> bool:
        """Returns whether a row belongs to the store still; what has expired is deleted when it suits."""
        if self.store.kind in (StoreKind.WINDOW, StoreKind.SESSION):
            return int.from_bytes(row[:SEGMENT_BYTES], "big", signed=True) >= self.first_live
        if self.store.kind is StoreKind.VERSIONED and row[:1] == _HISTORY:
            return int.from_bytes(row[1 : 1 + SEGMENT_BYTES], "big", signed=True) >= self.first_live
        return True

    def changelog_key(self, row: bytes) -> bytes:
        """Returns the key in the layout of the changelog; of an older version the row itself."""
        if self.store.kind in (StoreKind.WINDOW, StoreKind.SESSION):
            return row[SEGMENT_BYTES:]
        if self.store.kind is StoreKind.VERSIONED and row[:1] != _HISTORY:
            return row[1:]
        return row

    def has_timestamp(self, row: bytes) -> bool:
        """Returns whether the content of a row begins with the timestamp of its value."""
        if self.store.kind is StoreKind.VERSIONED:
            return row[:1] != _HISTORY
        return self.store.kind is not StoreKind.BUFFER


def new_segments(store: StoreSpec) -> Segments:
    """Returns the segments of an empty store."""
    if store.kind is StoreKind.VERSIONED:
        return HistorySegments(retention_ms=store.history_retention_ms, segment_interval_ms=store.segment_interval_ms)
    return Segments(retention_ms=store.retention_ms)


def prepare_scratch(path: Path, store: StoreSpec, segments: Segments | None) -> None:
    """Makes a database whose rows will fall into the same segments as those of the store that it is compared with.

    A store keeps the length of its segments when its retention changes.
    """
    database = RocksDatabase(path, {store.name: None}, options=DatabaseOptions())
    if segments is not None:
        empty = replace(
            new_segments(store),
            observed_stream_time=NO_TIMESTAMP,
            first_kept=0,
            segment_interval_ms=segments.interval_ms,
        )
        batch = database.new_batch()
        sequence = bytes(SEQUENCE_BYTES) if store.retains_duplicates else b""
        database.put_metadata(batch, SEGMENTS_KEY + store.name.encode(), empty.to_bytes() + sequence)
        database.write(batch)
    database.close()
