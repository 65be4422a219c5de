from __future__ import annotations

import numpy as np

from millrace.state import KeyValueStore, TaskPosition, TaskState
from tests.unit.state.specs import OpenState, key_value


def _put(store: KeyValueStore, **entries: bytes | None) -> None:
    keys = [key.encode() for key in entries]
    store.put_many(keys, list(entries.values()), np.arange(len(keys), dtype=np.int64) + 10)


def _commit(state: TaskState) -> None:
    state.drain_changelog()
    state.commit(TaskPosition())


def test_reads_see_uncommitted_writes_over_committed_ones(open_state: OpenState) -> None:
    state = open_state(key_value())
    store = state.key_value_store("kv")
    _put(store, a=b"1", b=b"2", c=b"3")
    _commit(state)
    _put(store, b=b"20", c=None, d=b"")

    values, timestamps = store.get_many([b"d", b"a", b"b", b"c", b"e", b"a"])

    assert values == [b"", b"1", b"20", None, None, b"1"]
    assert timestamps.tolist() == [12, 10, 10, -1, -1, 10]
    assert store.get(b"a") == (b"1", 10)
    assert store.get(b"c") is None
    assert list(store.all()) == [(b"a", b"1", 10), (b"b", b"20", 10), (b"d", b"", 12)]


def test_a_range_includes_both_ends_and_is_open_where_an_end_is_none(open_state: OpenState) -> None:
    state = open_state(key_value())
    store = state.key_value_store("kv")
    _put(store, a=b"1", b=b"2", c=b"3", ca=b"4")
    _commit(state)
    _put(store, bb=b"5", d=b"6")

    def keys(first: bytes | None, last: bytes | None) -> list[bytes]:
        return [key for key, _, _ in store.range(first, last)]

    assert keys(b"b", b"c") == [b"b", b"bb", b"c"]
    assert keys(None, b"b") == [b"a", b"b"]
    assert keys(b"c", None) == [b"c", b"ca", b"d"]
    assert keys(b"x", b"a") == []


def test_rollback_forgets_writes_and_their_changelog(open_state: OpenState) -> None:
    state = open_state(key_value())
    store = state.key_value_store("kv")
    _put(store, a=b"1")
    _commit(state)
    _put(store, a=b"2", b=b"3")

    state.rollback()

    assert list(store.all()) == [(b"a", b"1", 10)]
    assert store.get_many([b"a", b"b"])[0] == [b"1", None]
    assert state.drain_changelog() == []


def test_a_deleted_key_stays_deleted_after_the_commit(open_state: OpenState) -> None:
    state = open_state(key_value())
    store = state.key_value_store("kv")
    _put(store, a=b"1", b=b"2")
    _commit(state)
    _put(store, a=None)
    _commit(state)

    assert store.get(b"a") is None
    assert list(store.all()) == [(b"b", b"2", 11)]


def test_a_store_larger_than_its_read_cache_answers_from_the_database(open_state: OpenState) -> None:
    from millrace.state import key_value as module

    state = open_state(key_value())
    store = state.key_value_store("kv")
    assert isinstance(store, module.LayeredKeyValueStore)
    store._cache._budget = min(store._cache._budget, 50_000)
    keys = [b"%05d" % number for number in range(2_000)]
    for first in range(0, 2_000, 100):
        store.put_many(keys[first : first + 100], [b"v" + key for key in keys[first : first + 100]], np.arange(100))
        _commit(state)

    for asked in (keys, keys[::-1], keys[:150], keys[1_900:], keys):
        assert store.get_many(asked)[0] == [b"v" + key for key in asked]
    assert store.get_many([b"absent", b"00000"])[0] == [None, b"v00000"]


def test_no_key_of_a_fresh_store_is_read_from_the_database(open_state: OpenState) -> None:
    state = open_state(key_value())
    store = state.key_value_store("kv")
    _put(store, a=b"1")
    _commit(state)
    _put(store, b=b"2")
    store.get_many([b"a", b"b", b"c"])

    has_cache = store._cache._budget > 0  # type: ignore[attr-defined]
    assert store.metrics.database_reads == (0 if has_cache else 2)
    assert store.metrics.gets == 3
    assert store.metrics.puts == 2
