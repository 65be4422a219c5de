"""Session stores as user-written processors see them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from millrace.errors import ProcessingError
from millrace.serdes import Windowed
from millrace.state import SessionStore
from millrace.task.processing.store_values import StoreValues

_MAX_TIME = 2**63 - 1


class TypedSessionStore:
    """The typed form of :class:`millrace.topology.state_stores.SessionStore`.

    Args:
        store: the bytes.
        values: their serdes.
    """

    def __init__(self, store: SessionStore, values: StoreValues) -> None:
        self._store = store
        self._values = values

    @property
    def name(self) -> str:
        """The name of the store."""
        return self._values.name

    def put(self, session: Windowed, value: Any) -> None:
        """Writes a session's value."""
        data, timestamps = self._values.stored(value)
        start = self._values.time(session.start, what="the session start")
        end = self._values.time(session.end, what="the session end")
        if end < start:
            raise ProcessingError(
                f"Store {self.name} was given a session that ends at {end}, before its start {start}.",
                remedy="the first argument of Windowed behind the key is the start; a session ends at its last record",
            )
        expired = self._store.put_many([self._values.key(session.key)], [start], [end], [data], timestamps)
        self._values.count_expired(len(expired))

    def remove(self, session: Windowed) -> None:
        """Removes a session."""
        self.put(session, None)

    def fetch(self, key: Any) -> Iterator[tuple[Windowed, Any]]:
        """Returns all sessions of a key."""
        return self.find_sessions(key, 0, _MAX_TIME)

    def backward_fetch(self, key: Any) -> Iterator[tuple[Windowed, Any]]:
        """Returns all sessions of a key, from the latest."""
        found: list[tuple[Windowed, Any]] = list(self.fetch(key))
        return self._values.scan(iter(found[::-1]))

    def fetch_session(self, key: Any, earliest_start: int, latest_end: int) -> Any:
        """Returns the value of one session."""
        found = self._store.fetch_session(self._values.key(key), earliest_start, latest_end)
        return None if found is None else self._values.value(*found)

    def find_sessions(self, key: Any, earliest_end: int, latest_start: int) -> Iterator[tuple[Windowed, Any]]:
        """Returns the sessions of a key that overlap a span of time."""
        found = self._store.find_sessions(self._values.key(key), earliest_end, latest_start)
        sessions = [(Windowed(key, one.start, one.end), self._values.value(one.value, one.timestamp)) for one in found]
        return self._values.scan(iter(sessions))
