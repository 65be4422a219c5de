"""The stores as a task sees them: protocols of key-value, window and session stores. Keys and values are bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from millrace.state.layout import Int64Array


@dataclass
class StoreMetrics:
    """Running totals of one open store, counted per call.

    Args:
        puts: keys written (deletions too).
        gets: keys looked up.
        database_reads: of those, keys that neither the overlay nor the read cache could answer.
        expired: writes that were dropped because their window's segment had expired.
    """

    puts: int = 0
    gets: int = 0
    database_reads: int = 0
    expired: int = 0


@runtime_checkable
class KeyValueStore(Protocol):
    """Bytes by key, each value with its timestamp. Reads include uncommitted writes.

    Lists and arrays that are passed in are kept by reference until the next drain and commit: do not change them.
    """

    @property
    def name(self) -> str:
        """Name of the store."""

    @property
    def metrics(self) -> StoreMetrics:
        """Running totals since the store was opened."""

    def get(self, key: bytes) -> tuple[bytes, int] | None:
        """Returns the value and timestamp of one key."""

    def get_many(self, keys: list[bytes]) -> tuple[list[bytes | None], Int64Array]:
        """Returns the values and timestamps (int64 milliseconds, -1 without a value) of ``keys``, in their order."""

    def put_many(self, keys: list[bytes], values: list[bytes | None], timestamps: Int64Array) -> None:
        """Writes values with their timestamps; ``None`` deletes. A key may occur repeatedly: its last value counts."""

    def range(self, from_key: bytes | None, to_key: bytes | None) -> Iterator[tuple[bytes, bytes, int]]:
        """Yields (key, value, timestamp) with ``from_key <= key <= to_key``, by key bytes; ``None`` is an open end."""

    def all(self) -> Iterator[tuple[bytes, bytes, int]]:
        """Yields (key, value, timestamp) of every key, in the order of the key bytes."""

    def approximate_num_entries(self) -> int:
        """Returns the approximate number of keys."""


@runtime_checkable
class PrefixScanStore(KeyValueStore, Protocol):
    """A key-value store that finds the keys with a prefix."""

    def prefix_scan_many(self, prefixes: Sequence[bytes]) -> list[list[tuple[bytes, bytes, int]]]:
        """Returns for each prefix the (key, value, timestamp) of the keys that begin with it, by key bytes."""


@runtime_checkable
class WindowStore(Protocol):
    """Bytes by key and window start. Windows expire ``retention`` after the newest start that was ever written.

    Lists and arrays that are passed in are kept by reference until the next drain and commit: do not change them.
    """

    @property
    def name(self) -> str:
        """Name of the store."""

    @property
    def metrics(self) -> StoreMetrics:
        """Running totals since the store was opened."""

    @property
    def observed_stream_time(self) -> int:
        """Newest window start that was ever written, milliseconds; -1 before the first. Survives restarts."""

    def fetch_many(self, keys: list[bytes], starts: Int64Array) -> tuple[list[bytes | None], Int64Array]:
        """Returns the values and timestamps (-1 without a value) of (key, start) pairs.

        Expired windows have none.
        """

    def peek_many(self, keys: list[bytes], starts: Int64Array) -> tuple[list[bytes | None], Int64Array]:
        """Returns the same as :meth:`fetch_many`, also for windows that have expired since the last commit."""

    def keys_from(self, first_start: int) -> Iterator[tuple[bytes, int]]:
        """Yields (key, start) of the windows that start at or after ``first_start``; expired ones while stored."""

    def put_many(
        self, keys: list[bytes], starts: Int64Array, values: list[bytes | None], timestamps: Int64Array
    ) -> Int64Array:
        """Writes values of (key, starts) pairs, in this order; ``None`` deletes.

        Returns:
            the indices of the writes that fell into expired segments: they are not kept, and the metrics count them.
        """

    def fetch(self, key: bytes, from_start: int, to_start: int) -> Iterator[tuple[int, bytes, int]]:
        """Yields (start, value, timestamp) of one key's windows that start in ``[from_start, to_start]``, by start."""

    def fetch_all(self, from_start: int, to_start: int) -> Iterator[tuple[bytes, int, bytes, int]]:
        """Yields (key, start, value, timestamp) of every key, by segment, then by the bytes of key and start."""

    def all(self) -> Iterator[tuple[bytes, int, bytes, int]]:
        """Yields (key, start, value, timestamp) of all unexpired windows, by segment, then key and start."""

    def approximate_num_entries(self) -> int:
        """Returns the approximate number of (key, start) pairs."""


class Session(NamedTuple):
    """A session of a key.

    Args:
        start: timestamp of its first record, milliseconds.
        end: timestamp of its last record, milliseconds.
        value: the aggregate.
        timestamp: timestamp of the record that wrote it, milliseconds.
    """

    start: int
    end: int
    value: bytes
    timestamp: int


@runtime_checkable
class SessionStore(Protocol):
    """Bytes by key, start and end of a session. Sessions expire ``retention`` after the newest end ever written.

    Source: ``org.apache.kafka.streams.state.SessionStore``.
    """

    @property
    def name(self) -> str:
        """Name of the store."""

    @property
    def metrics(self) -> StoreMetrics:
        """Running totals since the store was opened."""

    @property
    def observed_stream_time(self) -> int:
        """Newest end of a session that was ever written, milliseconds; -1 before the first. Survives restarts."""

    def find_sessions(self, key: bytes, earliest_end: int, latest_start: int) -> list[Session]:
        """Returns the key's sessions that end at or after ``earliest_end`` and start at or before ``latest_start``.

        They are ordered by end, then start; expired ones are not among them.
        """

    def fetch_session(self, key: bytes, start: int, end: int) -> tuple[bytes, int] | None:
        """Returns the value and timestamp of the session of a key with exactly these bounds."""

    def put_many(
        self,
        keys: Sequence[bytes],
        starts: Sequence[int],
        ends: Sequence[int],
        values: Sequence[bytes | None],
        timestamps: Int64Array,
    ) -> Int64Array:
        """Writes sessions, in this order; ``None`` removes one.

        Returns:
            the indices of the writes that fell into expired segments: they are not kept, and the metrics count them.
        """

    def peek(self, key: bytes, start: int, end: int) -> bytes | None:
        """Returns the value of a session, even if it has expired since the last commit."""

    def keys_from(self, earliest_end: int) -> Iterator[tuple[bytes, int, int]]:
        """Yields (key, start, end) of the sessions that end at or after ``earliest_end``; expired ones while stored."""

    def find_ended(self, earliest_end: int, latest_end: int) -> Iterator[tuple[bytes, Session]]:
        """Yields (key, session) of all sessions that end in ``[earliest_end, latest_end]``, by segment, key, end."""

    def all(self) -> Iterator[tuple[bytes, Session]]:
        """Yields (key, session) of all unexpired sessions, by segment, then by the bytes of key, end and start."""

    def approximate_num_entries(self) -> int:
        """Returns the approximate number of sessions."""
