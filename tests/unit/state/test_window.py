from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from millrace.errors import StateError
from millrace.state import TaskPosition, TaskState, WindowStore
from tests.unit.state.specs import OpenState, key_value, window

MINUTE = 60_000


def _put(store: WindowStore, *writes: tuple[bytes, int, bytes | None]) -> None:
    starts = np.array([start for _, start, _ in writes], dtype=np.int64)
    store.put_many([key for key, _, _ in writes], starts, [value for _, _, value in writes], starts + 5)


def _fetch(store: WindowStore, *pairs: tuple[bytes, int]) -> list[bytes | None]:
    return store.fetch_many([key for key, _ in pairs], np.array([start for _, start in pairs], dtype=np.int64))[0]


def _commit(state: TaskState) -> None:
    state.drain_changelog()
    state.commit(TaskPosition())


def test_fetches_see_uncommitted_writes_over_committed_ones_in_each_window(open_state: OpenState) -> None:
    state = open_state(window(retention_ms=10 * MINUTE))
    store = state.window_store("win")
    _put(store, (b"a", 0, b"1"), (b"b", 0, b"2"), (b"a", MINUTE, b"3"))
    _commit(state)
    _put(store, (b"a", 0, b"10"), (b"b", 0, None), (b"a", 2 * MINUTE, b"4"))

    pairs = [(b"a", 0), (b"b", 0), (b"a", MINUTE), (b"b", MINUTE), (b"a", 2 * MINUTE), (b"a", 3 * MINUTE)]

    assert _fetch(store, *pairs) == [b"10", None, b"3", None, b"4", None]
    assert store.fetch_many([b"a"], np.array([MINUTE]))[1].tolist() == [MINUTE + 5]
    assert list(store.fetch(b"a", 0, 10 * MINUTE)) == [
        (0, b"10", 5),
        (MINUTE, b"3", MINUTE + 5),
        (2 * MINUTE, b"4", 2 * MINUTE + 5),
    ]
    assert list(store.fetch(b"a", 1, MINUTE)) == [(MINUTE, b"3", MINUTE + 5)]
    assert [(key, start) for key, start, _, _ in store.all()] == [(b"a", 0), (b"a", MINUTE), (b"a", 2 * MINUTE)]


def test_a_key_that_begins_with_another_key_is_not_fetched_with_it(open_state: OpenState) -> None:
    state = open_state(window(retention_ms=10 * MINUTE))
    store = state.window_store("win")
    long_key = b"a" + (0).to_bytes(8, "big") + bytes(4)
    _put(store, (b"a", 0, b"1"), (long_key, 0, b"2"), (b"a", MINUTE, b"3"), (b"a\0", 0, b"4"))
    _commit(state)

    assert [value for _, value, _ in store.fetch(b"a", 0, MINUTE)] == [b"1", b"3"]
    assert [value for _, value, _ in store.fetch(long_key, 0, MINUTE)] == [b"2"]


def test_windows_expire_by_the_newest_start_and_are_removed_with_their_segment(open_state: OpenState) -> None:
    state = open_state(window(retention_ms=2 * MINUTE))
    store = state.window_store("win")
    _put(store, (b"a", 0, b"1"), (b"a", MINUTE, b"2"))
    _commit(state)

    _put(store, (b"a", 2 * MINUTE, b"3"))
    assert _fetch(store, (b"a", 0), (b"a", MINUTE)) == [None, b"2"]
    _commit(state)
    assert [start for _, start, _, _ in store.all()] == [MINUTE, 2 * MINUTE]

    _put(store, (b"a", 5 * MINUTE, b"4"))
    _commit(state)
    assert [start for _, start, _, _ in store.all()] == [5 * MINUTE]
    assert list(store.fetch(b"a", 0, 10 * MINUTE)) == [(5 * MINUTE, b"4", 5 * MINUTE + 5)]


def test_writes_to_expired_segments_are_dropped_counted_and_not_logged(open_state: OpenState) -> None:
    state = open_state(window(retention_ms=2 * MINUTE))
    store = state.window_store("win")
    # The second write expires the segment of the third, but not that of the first, which came before.
    _put(store, (b"a", 0, b"1"), (b"a", 5 * MINUTE, b"2"), (b"b", 0, b"3"), (b"b", 3 * MINUTE, b"4"))

    assert store.metrics.expired == 1
    (batch,) = state.drain_changelog()
    assert batch.values == [b"1", b"2", b"4"]
    state.commit(TaskPosition())
    # 3 min is in a live segment, and yet its retention is over for a reader.
    assert [value for _, _, value, _ in store.all()] == [b"2"]


def test_rollback_takes_stream_time_and_the_count_of_expired_writes_back(open_state: OpenState) -> None:
    state = open_state(window(retention_ms=2 * MINUTE))
    store = state.window_store("win")
    _put(store, (b"a", MINUTE, b"1"))
    _commit(state)
    _put(store, (b"a", 9 * MINUTE, b"2"), (b"a", 0, b"3"))
    assert store.metrics.expired == 1

    state.rollback()

    assert store.observed_stream_time == MINUTE
    assert store.metrics.expired == 0
    assert [value for _, _, value, _ in store.all()] == [b"1"]


def test_windows_newer_than_all_before_need_no_read_also_after_a_restart(open_state: OpenState) -> None:
    state = open_state(window(retention_ms=10 * MINUTE))
    store = state.window_store("win")
    _put(store, (b"a", MINUTE, b"1"))
    _commit(state)
    if state.directory is None:
        pytest.skip("memory does not survive")
    state.close()

    state = open_state(window(retention_ms=10 * MINUTE))
    store = state.window_store("win")

    assert store.observed_stream_time == MINUTE
    assert _fetch(store, (b"a", 2 * MINUTE), (b"b", 3 * MINUTE)) == [None, None]
    assert store.metrics.database_reads == 0
    assert _fetch(store, (b"a", MINUTE), (b"b", MINUTE)) == [b"1", None]
    assert store.metrics.database_reads == 2


def test_a_window_store_needs_a_retention(open_state: OpenState) -> None:
    with pytest.raises(StateError, match="win has no retention"):
        open_state(window(retention_ms=0))


def test_a_store_asked_for_as_the_other_kind_is_named(open_state: OpenState) -> None:
    state = open_state(window(), key_value())

    with pytest.raises(StateError, match="win is a window store"):
        state.key_value_store("win")
    with pytest.raises(StateError, match="kv is a key-value store"):
        state.window_store("kv")
    with pytest.raises(StateError, match="no store other; it has kv, win"):
        state.store("other")


@pytest.mark.parametrize("later", [2, 60])
def test_windows_are_found_and_expire_after_the_retention_was_changed(tmp_path: Path, later: int) -> None:
    """Segments keep the length that they began with: numbered by another, old windows would be looked for in vain."""
    before = TaskState.open(tmp_path, [window(retention_ms=10 * MINUTE)])
    store = before.window_store("win")
    _put(store, (b"a", 20 * MINUTE, b"1"), (b"a", 29 * MINUTE, b"2"))
    _commit(before)
    before.close()

    state = TaskState.open(tmp_path, [window(retention_ms=later * MINUTE)])
    store = state.window_store("win")
    assert _fetch(store, (b"a", 29 * MINUTE)) == [b"2"]
    assert _fetch(store, (b"a", 20 * MINUTE)) == [b"1" if later > 10 else None]
    _put(store, (b"a", 200 * MINUTE, b"3"))
    _commit(state)
    assert [(key, start) for key, start, _, _ in store.all()] == [(b"a", 200 * MINUTE)]
    state.close()
