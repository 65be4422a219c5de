from __future__ import annotations

import numpy as np

from tests.unit.state.specs import OpenState, key_value, window


def test_a_cached_store_drains_the_last_write_of_each_key_in_the_order_of_the_last_writes(
    open_state: OpenState,
) -> None:
    state = open_state(key_value(cached=True))
    store = state.key_value_store("kv")
    store.put_many([b"a", b"b", b"a"], [b"1", b"2", b"3"], np.array([1, 2, 3]))
    store.put_many([b"c", b"b"], [b"4", None], np.array([4, 5]))

    (batch,) = state.drain_changelog()

    assert (batch.store, batch.keys, batch.values) == ("kv", [b"a", b"c", b"b"], [b"3", b"4", None])
    assert batch.timestamps.tolist() == [3, 4, 5]
    assert state.drain_changelog() == []


def test_a_store_without_cache_drains_every_write_in_order(open_state: OpenState) -> None:
    state = open_state(key_value(cached=False))
    store = state.key_value_store("kv")
    store.put_many([b"a", b"b", b"a"], [b"1", b"2", b"3"], np.array([1, 2, 3]))
    store.put_many([b"b"], [None], np.array([5]))

    (batch,) = state.drain_changelog()

    assert batch.keys == [b"a", b"b", b"a", b"b"]
    assert batch.values == [b"1", b"2", b"3", None]
    assert batch.timestamps.tolist() == [1, 2, 3, 5]


def test_a_key_written_before_and_after_a_drain_is_drained_twice(open_state: OpenState) -> None:
    state = open_state(key_value(cached=True))
    store = state.key_value_store("kv")
    drained = []
    for value in (b"1", b"2"):
        store.put_many([b"a"], [value], np.array([1]))
        drained += [batch.values for batch in state.drain_changelog()]

    assert drained == [[b"1"], [b"2"]]


def test_the_same_key_in_two_windows_is_two_changelog_keys(open_state: OpenState) -> None:
    state = open_state(window(cached=True))
    state.window_store("win").put_many(
        [b"k", b"k", b"k"], np.array([0, 60_000, 0]), [b"1", b"2", b"3"], np.array([5, 65_000, 6])
    )

    (batch,) = state.drain_changelog()

    assert [key.hex() for key in batch.keys] == ["6b000000000000ea6000000000", "6b000000000000000000000000"]
    assert batch.values == [b"2", b"3"]
    assert batch.timestamps.tolist() == [65_000, 6]


def test_a_store_that_is_not_logged_drains_nothing(open_state: OpenState) -> None:
    state = open_state(key_value(logged=False))
    state.key_value_store("kv").put_many([b"a"], [b"1"], np.array([1]))

    assert state.drain_changelog() == []
