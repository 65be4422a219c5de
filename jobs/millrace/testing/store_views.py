"""The views of a topology's stores that a test gets by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from millrace.serdes import Serde
from millrace.state import (
    KeyValueStore,
    SessionStore,
    SuppressionBuffer,
    VersionedKeyValueStore,
    WindowStore,
)
from millrace.state.join_layout import read_outer_join_key, read_outer_join_values
from millrace.state.join_window import JoinWindowStore
from millrace.state.layout import WINDOW_SUFFIX_BYTES
from millrace.task.serialization import or_default
from millrace.testing.stores import TestKeyValueStore, TestSessionStore, TestVersionedStore, TestWindowStore
from millrace.topology.operators import StreamStreamJoin
from millrace.topology.parts import SubTopology
from millrace.topology.stores import StoreKind, StoreSpec


class TestJoinStore:
    """The records of one side of a join of two streams, any number for a key and a timestamp."""

    __test__: ClassVar[bool] = False

    def __init__(self, store: JoinWindowStore, key_serde: Serde, value_serde: Serde) -> None:
        self._store = store
        self._key_serde = key_serde
        self._value_serde = value_serde

    def fetch(self, key: Any, from_time: int = 0, to_time: int = 2**63 - 1) -> list[tuple[int, Any]]:
        """Returns timestamp (milliseconds) and value of a key's records within the bounds, both inclusive, by time."""
        return [(time, value) for found, value, time in self.entries() if found == key and from_time <= time <= to_time]

    def entries(self) -> Iterator[tuple[Any, Any, int]]:
        """Returns key, value and timestamp (milliseconds) of all records that have not expired."""
        for window_key, value, timestamp in self._store.all():
            key = self._key_serde.deserialize(window_key[:-WINDOW_SUFFIX_BYTES])
            yield key, self._value_serde.deserialize(value), timestamp


class TestOuterJoinStore:
    """The records of a left or outer join of two streams that have no partner yet."""

    __test__: ClassVar[bool] = False

    def __init__(self, store: KeyValueStore, key_serde: Serde, left_serde: Serde, right_serde: Serde) -> None:
        self._store = store
        self._key_serde = key_serde
        self._left_serde = left_serde
        self._right_serde = right_serde

    def entries(self) -> Iterator[tuple[Any, Any, int, str]]:
        """Returns key, value, timestamp (milliseconds) and side (``left`` or ``right``) of each, in their order."""
        for data, values, _ in self._store.all():
            timestamp, is_left, key = read_outer_join_key(data)
            serde = self._left_serde if is_left else self._right_serde
            for value in read_outer_join_values(values):
                side = "left" if is_left else "right"
                yield self._key_serde.deserialize(key), serde.deserialize(value), timestamp, side


class TestSuppressionBuffer:
    """The changes of a suppressed table that wait."""

    __test__: ClassVar[bool] = False

    def __init__(self, buffer: SuppressionBuffer, key_serde: Serde, value_serde: Serde) -> None:
        self._buffer = buffer
        self._key_serde = key_serde
        self._value_serde = value_serde

    def entries(self) -> Iterator[tuple[Any, Any, int]]:
        """Returns key, new value and timestamp (milliseconds) of each change, in the order of their emission."""
        for key, change in self._buffer.all():
            value = None if change.new is None else self._value_serde.deserialize(change.new)
            yield self._key_serde.deserialize(key), value, change.context.timestamp


TestStore = (
    TestKeyValueStore
    | TestWindowStore
    | TestSessionStore
    | TestVersionedStore
    | TestJoinStore
    | TestOuterJoinStore
    | TestSuppressionBuffer
)


def store_view(part: SubTopology, spec: StoreSpec, store: object) -> TestStore:
    """Returns the store as keys and values.

    Args:
        part: the sub-topology that has it.
        spec: what it is.
        store: the task's store.
    """
    key_serde, value_serde = or_default(spec.key_serde), or_default(spec.value_serde)
    match spec.kind, store:
        case StoreKind.WINDOW, JoinWindowStore():
            return TestJoinStore(store, key_serde, value_serde)
        case StoreKind.BUFFER, SuppressionBuffer():
            return TestSuppressionBuffer(store, key_serde, value_serde)
        case StoreKind.WINDOW, WindowStore():
            return TestWindowStore(store, key_serde, value_serde, spec.window_size_ms)
        case StoreKind.SESSION, SessionStore():
            return TestSessionStore(store, key_serde, value_serde)
        case StoreKind.VERSIONED, VersionedKeyValueStore():
            return TestVersionedStore(store, key_serde, value_serde)
        case StoreKind.KEY_VALUE, KeyValueStore():
            return _unmatched(part, spec, store) or TestKeyValueStore(store, key_serde, value_serde)
        case _:
            raise TypeError(f"The test driver cannot show a {type(store).__name__}.")


def _unmatched(part: SubTopology, spec: StoreSpec, store: KeyValueStore) -> TestOuterJoinStore | None:
    specs = {each.name: each for each in part.stores}
    for node in part.processors:
        if isinstance(node.operator, StreamStreamJoin) and node.operator.waiting_store == spec.name:
            left, right = specs[node.operator.left_store], specs[node.operator.right_store]
            serdes = (left.key_serde, left.value_serde, right.value_serde)
            return TestOuterJoinStore(store, *map(or_default, serdes))
    return None
