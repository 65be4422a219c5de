"""The buffers of stream-stream joins, on each backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from millrace.errors import StateError
from millrace.state import TaskPosition, TaskState
from millrace.state.join_layout import outer_join_key, outer_join_values, read_outer_join_key, read_outer_join_values
from millrace.topology.stores import StoreBackend, StoreKind, StoreSpec
from tests.unit.state.specs import OpenState, key_value

MINUTE = 60_000


def buffer(name: str = "buffer", *, retention_ms: int = 20, **fields: Any) -> StoreSpec:
    return StoreSpec(
        name=name, kind=StoreKind.WINDOW, retention_ms=retention_ms, retains_duplicates=True, cached=False, **fields
    )


def put(state: TaskState, *entries: tuple[bytes, int, bytes | None]) -> list[int]:
    keys, times, values = (
        [key for key, _, _ in entries],
        [at for _, at, _ in entries],
        [value for _, _, value in entries],
    )
    return [*map(int, state.join_store("buffer").put_many(keys, values, np.array(times, dtype=np.int64)))]


def commit(state: TaskState) -> list[tuple[bytes, bytes | None, int]]:
    """Commits; returns what the changelog gets."""
    drained = [
        row
        for batch in state.drain_changelog()
        for row in zip(batch.keys, batch.values, batch.timestamps.tolist(), strict=True)
    ]
    state.commit(TaskPosition())
    return drained


def fetched(state: TaskState, key: bytes, first: int = 0, last: int = 10**15) -> list[tuple[int, bytes]]:
    (entries,) = state.join_store("buffer").fetch_many([key], first, last)
    return list(zip(entries.times, entries.values, strict=True))


def suffix(time: int, sequence: int) -> bytes:
    return time.to_bytes(8, "big") + sequence.to_bytes(4, "big")


def test_entries_of_one_key_and_time_stay_beside_each_other_in_the_order_of_their_writes(open_state: OpenState) -> None:
    state = open_state(buffer())
    put(state, (b"k", 5, b"b"), (b"k", 5, b"a"), (b"k", 4, b"c"))
    assert fetched(state, b"k") == [(4, b"c"), (5, b"b"), (5, b"a")]
    commit(state)
    put(state, (b"k", 5, b"0"))
    assert fetched(state, b"k") == [(4, b"c"), (5, b"b"), (5, b"a"), (5, b"0")]


def test_keys_that_begin_alike_are_told_apart(open_state: OpenState) -> None:
    state = open_state(buffer())
    longer = b"k" + suffix(5, 2)
    put(state, (b"k", 5, b"short"), (longer, 5, b"long"), (b"k\0", 5, b"zero"))
    for _ in range(2):
        assert fetched(state, b"k") == [(5, b"short")]
        assert fetched(state, longer) == [(5, b"long")]
        assert fetched(state, b"k\0") == [(5, b"zero")]
        commit(state)


def test_the_changelog_has_the_sequence_number_in_its_keys_and_tombstones_for_null_values(
    open_state: OpenState,
) -> None:
    state = open_state(buffer())
    put(state, (b"k", 5, b"a"), (b"k", 6, None), (b"k", 5, b"b"))
    assert commit(state) == [
        (b"k" + suffix(5, 1), b"a", 5),
        (b"k" + suffix(6, 2), None, 6),
        (b"k" + suffix(5, 3), b"b", 5),
    ]
    assert fetched(state, b"k") == [(5, b"a"), (5, b"b")]
    assert state.join_store("buffer").observed_stream_time == 5


def test_an_entry_is_seen_while_its_time_is_above_the_largest_minus_the_retention(open_state: OpenState) -> None:
    state = open_state(buffer(retention_ms=20))
    put(state, (b"k", 100, b"a"), (b"k", 101, b"b"), (b"other", 120, b"c"))
    for _ in range(2):
        assert fetched(state, b"k") == [(101, b"b")]
        commit(state)


def test_expired_segments_are_deleted_and_late_writes_into_them_counted(open_state: OpenState) -> None:
    state = open_state(buffer(retention_ms=20))
    put(state, (b"k", 5, b"a"))
    commit(state)
    assert put(state, (b"k", 3 * MINUTE, b"b"), (b"k", 7, b"late"), (b"k", 3 * MINUTE - 1, b"c")) == [1]
    changes = commit(state)
    assert [value for _, value, _ in changes] == [b"b", b"late", b"c"]
    assert [value for _, value, _ in state.join_store("buffer").all()] == [b"c", b"b"]
    assert fetched(state, b"k") == [(3 * MINUTE - 1, b"c"), (3 * MINUTE, b"b")]


def test_a_rollback_takes_entries_time_and_sequence_back(open_state: OpenState) -> None:
    state = open_state(buffer())
    put(state, (b"k", 5, b"a"))
    commit(state)
    put(state, (b"k", 90, b"b"))
    state.rollback()
    assert fetched(state, b"k") == [(5, b"a")]
    put(state, (b"k", 6, b"c"))
    assert commit(state) == [(b"k" + suffix(6, 2), b"c", 6)]


@pytest.mark.parametrize("backend", [StoreBackend.ROCKSDB, StoreBackend.MEMORY])
def test_a_null_value_moves_the_time_of_a_buffer_in_memory_only(open_state: OpenState, backend: StoreBackend) -> None:
    in_memory = backend is StoreBackend.MEMORY
    state = open_state(buffer(backend=backend))
    assert put(state, (b"k", 5, b"a"), (b"k", 100, None), (b"k", 50, None)) == ([2] if in_memory else [])
    assert state.join_store("buffer").observed_stream_time == (100 if in_memory else 5)
    assert fetched(state, b"k") == ([] if in_memory else [(5, b"a")])
    commit(state)
    state.restore_batch("buffer", [b"k" + suffix(150, 4)], [None], np.array([150], dtype=np.int64))
    assert state.join_store("buffer").observed_stream_time == (150 if in_memory else 5)


def test_after_a_restart_no_write_takes_the_place_of_an_earlier_one(open_state: OpenState) -> None:
    state = open_state(buffer())
    if state.directory is None:
        pytest.skip("memory forgets")
    put(state, (b"k", 5, b"a"), (b"k", 5, b"b"))
    commit(state)
    state.close()
    state = open_state(buffer())
    put(state, (b"k", 5, b"c"))
    commit(state)
    assert fetched(state, b"k") == [(5, b"a"), (5, b"b"), (5, b"c")]
    assert state.join_store("buffer").observed_stream_time == 5


def test_a_restored_buffer_goes_on_where_the_changelog_ends(open_state: OpenState) -> None:
    state = open_state(buffer(retention_ms=20))
    records: list[tuple[bytes, bytes | None, int]] = [
        (b"k" + suffix(5, 1), b"old", 5),
        (b"k" + suffix(4 * MINUTE, 2), b"a", 4 * MINUTE),
        (b"k" + suffix(4 * MINUTE, 3), b"b", 4 * MINUTE),
        (b"k" + suffix(9 * MINUTE, 4), None, 9 * MINUTE),
    ]
    keys, values, times = map(list, zip(*records, strict=True))
    for _ in range(2):
        assert state.restore_batch("buffer", keys, values, np.array(times, dtype=np.int64)) == 2
    commit(state)
    assert fetched(state, b"k") == [(4 * MINUTE, b"a"), (4 * MINUTE, b"b")]
    put(state, (b"k", 4 * MINUTE, b"c"))
    assert commit(state) == [(b"k" + suffix(4 * MINUTE, 5), b"c", 4 * MINUTE)]


def test_a_store_of_another_shape_is_refused(open_state: OpenState) -> None:
    state = open_state(buffer(), key_value())
    with pytest.raises(StateError, match="buffer of a join"):
        state.window_store("buffer")
    with pytest.raises(StateError, match="no buffer"):
        state.join_store("kv")


def test_non_joined_records_have_the_layout_of_kafka_streams() -> None:
    key = outer_join_key(258, left=True, key=b"k")
    assert key == bytes([0, 0, 0, 0, 0, 0, 1, 2, 1]) + b"k"
    assert read_outer_join_key(key) == (258, True, b"k")
    assert outer_join_key(258, left=False, key=b"z") < key < outer_join_key(259, left=False, key=b"")
    values = outer_join_values([b"ab", b""], left=False)
    assert values == b"\x01\0\0\0\x02" + b"\0\0\0\x03\0ab" + b"\0\0\0\x01\0"
    assert read_outer_join_values(values) == [b"ab", b""]
