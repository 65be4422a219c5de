"""The stores that processors are given: typed by their serdes. Named as in ``org.apache.kafka.streams.state``.

The value of a timestamped store is a :class:`ValueAndTimestamp`; that of other stores the plain value, which is kept
with the timestamp of the record that is processed. Keys are never ``None``. Iterators give what was there when they
were started, in the order of the key's bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, overload

from millrace.serdes import Serde, Windowed

K = TypeVar("K")
V = TypeVar("V")
K_contra = TypeVar("K_contra", contravariant=True)
V_co = TypeVar("V_co", covariant=True)

VALID_TO_UNDEFINED = -1
"""What a put of the newest version of its key returns (``PUT_RETURN_CODE_VALID_TO_UNDEFINED``)."""
NOT_PUT = -(2**63)
"""What a put returns that came too late to be kept (``PUT_RETURN_CODE_NOT_PUT``)."""


@dataclass(frozen=True)
class ValueAndTimestamp(Generic[V_co]):
    """A value of a timestamped store.

    Args:
        value: the value, not ``None``.
        timestamp: its event time, milliseconds.
    """

    value: V_co
    timestamp: int


@dataclass(frozen=True)
class VersionedRecord(Generic[V_co]):
    """A version of a key's value (KIP-889).

    Args:
        value: the value, not ``None``.
        timestamp: since when it is valid, milliseconds, inclusive.
        valid_to: until when, milliseconds, exclusive; ``None`` for the newest version.
    """

    value: V_co
    timestamp: int
    valid_to: int | None


class VersionedKeyValueStore(Protocol[K_contra, V]):
    """A store with the history of each key (KIP-889). Times are milliseconds since the epoch."""

    @property
    def name(self) -> str:
        """Name of the store."""

    def put(self, key: K_contra, value: V | None, timestamp: int) -> int:
        """Puts a version that is valid from ``timestamp`` on; ``None`` is a tombstone.

        Returns:
            the timestamp of the key's next version; -1 where it is the newest one (``VALID_TO_UNDEFINED``), -2**63
            where it is older than the history retention, and was dropped and counted (``NOT_PUT``).
        """

    def delete(self, key: K_contra, timestamp: int) -> VersionedRecord[V] | None:
        """Puts a tombstone; returns the version that was valid at ``timestamp``."""

    def get(self, key: K_contra, as_of: int | None = None) -> VersionedRecord[V] | None:
        """Returns the newest version, or the one that is valid at ``as_of``; ``None`` where there is none.

        Further back than the history retention only a newest version is found.
        """

    def versions(self, key: K_contra, from_time: int, to_time: int) -> list[VersionedRecord[V]]:
        """Returns the versions that are valid at some time within the bounds, both inclusive, by timestamp."""


class ReadOnlyKeyValueStore(Protocol[K, V_co]):
    """A key-value store as readers see it."""

    @property
    def name(self) -> str:
        """Name of the store."""

    def get(self, key: K) -> V_co | None:
        """Returns the key's value, ``None`` where there is none."""

    def range(self, from_key: K | None, to_key: K | None) -> Iterator[tuple[K, V_co]]:
        """Keys and values of a range of key bytes, both ends included; ``None`` leaves an end open."""

    def reverse_range(self, from_key: K | None, to_key: K | None) -> Iterator[tuple[K, V_co]]:
        """Works like :meth:`range`, from the end."""

    def all(self) -> Iterator[tuple[K, V_co]]:
        """Returns every key and value."""

    def reverse_all(self) -> Iterator[tuple[K, V_co]]:
        """Works like :meth:`all`, from the end."""

    def prefix_scan(self, prefix: Any, prefix_serde: Serde | None = None) -> Iterator[tuple[K, V_co]]:
        """Keys whose bytes begin with those of ``prefix`` (KIP-614); without a serde it is written as a key."""

    def approximate_num_entries(self) -> int:
        """Returns about how many keys there are."""


class KeyValueStore(ReadOnlyKeyValueStore[K, V], Protocol):
    """A key-value store."""

    def put(self, key: K, value: V | None) -> None:
        """Writes a value; ``None`` deletes."""

    def put_if_absent(self, key: K, value: V | None) -> V | None:
        """Writes a value unless the key has one; returns the one that it has."""

    def put_all(self, entries: Iterable[tuple[K, V | None]]) -> None:
        """Writes several."""

    def delete(self, key: K) -> V | None:
        """Deletes a key; returns the value that it had."""


class ReadOnlyWindowStore(Protocol[K_contra, V_co]):
    """A window store as readers see it. Times are window starts, milliseconds since the epoch."""

    @property
    def name(self) -> str:
        """Name of the store."""

    @overload
    def fetch(self, key: K_contra, time: int, /) -> V_co | None: ...
    @overload
    def fetch(self, key: K_contra, time_from: int, time_to: int, /) -> Iterator[tuple[int, V_co]]: ...
    def fetch(self, key: K_contra, time: int, time_to: int | None = None, /) -> Any:
        """Returns the value of the key's window that starts at ``time``.

        With two times, it returns start and value of all windows between them.

        The bounds are included, and the windows come by their start.
        """

    def backward_fetch(self, key: K_contra, time_from: int, time_to: int) -> Iterator[tuple[int, V_co]]:
        """Works like ``fetch(key, time_from, time_to)``, from the latest."""

    def fetch_range(
        self, from_key: K_contra | None, to_key: K_contra | None, time_from: int, time_to: int
    ) -> Iterator[tuple[Windowed, V_co]]:
        """Returns windowed keys and values of a range of keys and of starts, both ends included."""

    def fetch_all(self, time_from: int, time_to: int) -> Iterator[tuple[Windowed, V_co]]:
        """Returns windowed keys and values of all windows that start in the range, both ends included."""

    def all(self) -> Iterator[tuple[Windowed, V_co]]:
        """Returns all entries that have not expired."""


class WindowStore(ReadOnlyWindowStore[K_contra, V], Protocol):
    """A window store."""

    def put(self, key: K_contra, value: V | None, window_start: int) -> None:
        """Writes a window's value; ``None`` deletes. A window that has expired is dropped and counted."""


class ReadOnlySessionStore(Protocol[K_contra, V_co]):
    """A session store as readers see it. Times are milliseconds since the epoch."""

    @property
    def name(self) -> str:
        """Name of the store."""

    def fetch(self, key: K_contra) -> Iterator[tuple[Windowed, V_co]]:
        """Returns all sessions of a key, by end, then start."""

    def backward_fetch(self, key: K_contra) -> Iterator[tuple[Windowed, V_co]]:
        """Works like :meth:`fetch`, from the latest."""

    def fetch_session(self, key: K_contra, earliest_start: int, latest_end: int) -> V_co | None:
        """Returns the value of the session with exactly these bounds."""

    def find_sessions(self, key: K_contra, earliest_end: int, latest_start: int) -> Iterator[tuple[Windowed, V_co]]:
        """Returns the key's sessions that end at or after ``earliest_end`` and start at or before ``latest_start``."""


class SessionStore(ReadOnlySessionStore[K_contra, V], Protocol):
    """A session store."""

    def put(self, session: Windowed, value: V | None) -> None:
        """Writes a session's value; ``None`` removes it. A session that has expired is dropped and counted."""

    def remove(self, session: Windowed) -> None:
        """Removes a session."""
