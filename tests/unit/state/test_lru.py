"""The least-recently-used map: what it pushes out, also in the changelog, and what a rollback brings back."""

from __future__ import annotations

import numpy as np

from millrace.state import TaskPosition, TaskState
from tests.unit.state.specs import key_value

SPEC = key_value("lru", capacity=2, cached=False)


def put(state: TaskState, key: bytes, value: bytes | None, at: int) -> None:
    state.key_value_store("lru").put_many([key], [value], np.array([at]))


def keys(state: TaskState) -> list[bytes]:
    return [key for key, _, _ in state.key_value_store("lru").all()]


def drained(state: TaskState) -> list[tuple[bytes, bytes | None, int]]:
    return [
        row
        for batch in state.drain_changelog()
        for row in zip(batch.keys, batch.values, batch.timestamps.tolist(), strict=True)
    ]


def test_a_new_key_pushes_out_the_one_that_was_not_used_for_longest() -> None:
    state = TaskState.open(None, [SPEC])
    put(state, b"a", b"1", 1)
    put(state, b"b", b"2", 2)
    assert state.key_value_store("lru").get(b"a") == (b"1", 1)
    put(state, b"c", b"3", 3)
    assert keys(state) == [b"a", b"c"]
    assert drained(state) == [(b"a", b"1", 1), (b"b", b"2", 2), (b"b", None, 3), (b"c", b"3", 3)]
    state.close()


def test_a_write_of_a_known_key_and_a_deletion_push_nothing_out() -> None:
    state = TaskState.open(None, [SPEC])
    for at, key in enumerate((b"a", b"b", b"a"), start=1):
        put(state, key, b"x", at)
    put(state, b"b", None, 4)
    put(state, b"c", b"x", 5)
    assert keys(state) == [b"a", b"c"]
    assert state.key_value_store("lru").approximate_num_entries() == 2
    state.close()


def test_a_rollback_brings_back_what_was_pushed_out_and_the_order_of_use() -> None:
    state = TaskState.open(None, [SPEC])
    put(state, b"a", b"1", 1)
    put(state, b"b", b"2", 2)
    state.drain_changelog()
    state.commit(TaskPosition())
    state.key_value_store("lru").get(b"a")
    put(state, b"c", b"3", 3)
    put(state, b"d", b"4", 4)
    state.rollback()
    assert keys(state) == [b"a", b"b"]
    assert drained(state) == []
    put(state, b"c", b"3", 5)
    assert keys(state) == [b"b", b"c"]
    state.close()


def test_a_map_restored_from_its_changelog_holds_the_same_keys() -> None:
    state = TaskState.open(None, [SPEC])
    for at, key in enumerate((b"a", b"b", b"a", b"c", b"d"), start=1):
        put(state, key, b"%d" % at, at)
    changelog = drained(state)
    state.commit(TaskPosition())
    restored = TaskState.open(None, [SPEC])
    for key, value, at in changelog:
        restored.restore_batch("lru", [key], [value], np.array([at]))
    assert list(restored.key_value_store("lru").all()) == list(state.key_value_store("lru").all())
    assert restored.sizes()["lru"] == state.sizes()["lru"] == (2, 2 + 2 * 9)
    state.close()
    restored.close()
