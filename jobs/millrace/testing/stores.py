"""Stores of the test driver, read with their serdes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from millrace.serdes import Serde, Windowed
from millrace.state import KeyValueStore, SessionStore, VersionedKeyValueStore, VersionedRecord, WindowStore


class TestKeyValueStore:
    """A key-value store as keys and values."""

    __test__: ClassVar[bool] = False

    def __init__(self, store: KeyValueStore, key_serde: Serde, value_serde: Serde) -> None:
        self._store = store
        self._key_serde = key_serde
        self._value_serde = value_serde

    def get(self, key: Any) -> Any:
        """Returns the key's value, ``None`` where there is none."""
        found = self._store.get(self._key_serde.serialize(key))
        return None if found is None else self._value_serde.deserialize(found[0])

    def get_timestamp(self, key: Any) -> int | None:
        """Returns the timestamp of the key's value, milliseconds."""
        found = self._store.get(self._key_serde.serialize(key))
        return None if found is None else found[1]

    def all(self) -> dict[Any, Any]:
        """Returns all keys and values, in the order of the key bytes."""
        return {key: value for key, value, _ in self.entries()}

    def entries(self) -> Iterator[tuple[Any, Any, int]]:
        """Returns key, value and timestamp (milliseconds) of all entries, in the order of the key bytes."""
        for key, value, timestamp in self._store.all():
            yield self._key_serde.deserialize(key), self._value_serde.deserialize(value), timestamp


class TestWindowStore:
    """A window store as windowed keys and values."""

    __test__: ClassVar[bool] = False

    def __init__(self, store: WindowStore, key_serde: Serde, value_serde: Serde, window_size_ms: int) -> None:
        self._store = store
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._window_size_ms = window_size_ms

    def fetch(self, key: Any, from_start: int, to_start: int) -> dict[int, Any]:
        """Returns the values of a key by window start (milliseconds), for starts within the bounds, both inclusive."""
        found = self._store.fetch(self._key_serde.serialize(key), from_start, to_start)
        return {start: self._value_serde.deserialize(value) for start, value, _ in found}

    def all(self) -> dict[Windowed, Any]:
        """Returns all windows that have not expired."""
        return {windowed: value for windowed, value, _ in self.entries()}

    def entries(self) -> Iterator[tuple[Windowed, Any, int]]:
        """Returns windowed key, value and timestamp (milliseconds) of all windows that have not expired."""
        for key, start, value, timestamp in self._store.all():
            windowed = Windowed(self._key_serde.deserialize(key), start, min(start + self._window_size_ms, 2**63 - 1))
            yield windowed, self._value_serde.deserialize(value), timestamp


class TestSessionStore:
    """A session store as windowed keys, whose ends are inclusive, and values."""

    __test__: ClassVar[bool] = False

    def __init__(self, store: SessionStore, key_serde: Serde, value_serde: Serde) -> None:
        self._store = store
        self._key_serde = key_serde
        self._value_serde = value_serde

    def fetch(self, key: Any) -> dict[Windowed, Any]:
        """Returns the sessions of a key, by their ends."""
        sessions = self._store.find_sessions(self._key_serde.serialize(key), 0, 2**63 - 1)
        return {Windowed(key, at.start, at.end): self._value_serde.deserialize(at.value) for at in sessions}

    def all(self) -> dict[Windowed, Any]:
        """Returns all sessions that have not expired."""
        return {
            Windowed(self._key_serde.deserialize(key), at.start, at.end): self._value_serde.deserialize(at.value)
            for key, at in self._store.all()
        }


class TestVersionedStore:
    """A versioned store as keys and values, now and earlier."""

    __test__: ClassVar[bool] = False

    def __init__(self, store: VersionedKeyValueStore, key_serde: Serde, value_serde: Serde) -> None:
        self._store = store
        self._key_serde = key_serde
        self._value_serde = value_serde

    def get(self, key: Any, as_of: int | None = None) -> Any:
        """Returns the key's newest value, or the one at ``as_of`` (milliseconds); ``None`` where there is none."""
        version = self.get_version(key, as_of)
        return None if version is None else version[0]

    def get_version(self, key: Any, as_of: int | None = None) -> tuple[Any, int, int | None] | None:
        """Returns the value as :meth:`get`, with the time since which it is valid and, unless newest, until when."""
        found = self._store.get(self._key_serde.serialize(key), as_of)
        return None if found is None else self._decoded(found)

    def versions(self, key: Any, from_time: int = 0, to_time: int = 2**63 - 1) -> list[tuple[Any, int, int | None]]:
        """Returns value, start and end of a key's versions that are valid within inclusive bounds, by time."""
        found = self._store.versions(self._key_serde.serialize(key), from_time, to_time)
        return [self._decoded(version) for version in found]

    def _decoded(self, version: VersionedRecord) -> tuple[Any, int, int | None]:
        return self._value_serde.deserialize(version.value), version.timestamp, version.valid_to
