"""What the stores of the record cache have merged for the next commit, bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from millrace.state import TaskPosition, TaskState
from millrace.topology.stores import StoreKind, StoreSpec
from tests.unit.state.specs import OpenState, key_value, versioned, window

MINUTE = 60_000
TIME_BYTES = 8
SESSION_KEY_BYTES = 8 + 16
"""Its segment, and its end and start."""


def session(**fields: Any) -> StoreSpec:
    return StoreSpec(name="sessions", kind=StoreKind.SESSION, retention_ms=3 * MINUTE, **fields)


def write(state: TaskState, key: bytes, value: bytes | None) -> None:
    """Writes to each of the stores."""
    times = np.array([MINUTE], dtype=np.int64)
    state.key_value_store("kv").put_many([key], [value], times)
    state.window_store("win").put_many([key], times, [value], times)
    state.session_store("sessions").put_many([key], [0], [MINUTE], [value], times)


def commit(state: TaskState) -> None:
    state.drain_changelog()
    state.commit(TaskPosition())


@pytest.mark.parametrize("logged", [True, False])
def test_of_each_key_the_last_update_counts_until_the_commit(open_state: OpenState, *, logged: bool) -> None:
    state = open_state(key_value(logged=logged), window(logged=logged), session(logged=logged))
    assert state.merged_bytes() == 0
    write(state, b"abc", b"first")
    write(state, b"abc", b"the last")
    write(state, b"d", b"")
    keys = 3 * (len(b"abc") + len(b"d")) + 2 * SESSION_KEY_BYTES
    assert state.merged_bytes() == keys + 3 * (len(b"the last") + 2 * TIME_BYTES)
    commit(state)
    assert state.merged_bytes() == 0
    write(state, b"d", None)
    assert state.merged_bytes() == 3 * len(b"d") + SESSION_KEY_BYTES
    state.rollback()
    assert state.merged_bytes() == 0


def test_stores_that_are_not_cached_by_key_count_for_nothing(open_state: OpenState) -> None:
    state = open_state(key_value(cached=False), key_value("lru", capacity=3), versioned())
    times = np.array([1], dtype=np.int64)
    for name in ("kv", "lru"):
        state.key_value_store(name).put_many([b"k"], [b"v"], times)
    state.versioned_store("ver").put_many([b"k"], [b"v"], times)
    assert state.merged_bytes() == 0


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (key_value(), True),
        (window(), True),
        (session(), True),
        (key_value(cached=False), False),
        (key_value(capacity=3), False),
        (window(retains_duplicates=True), False),
        (versioned(), False),
        (StoreSpec(name="suppressed", kind=StoreKind.BUFFER), False),
    ],
)
def test_the_record_cache_is_about_updates_that_are_held_by_key(spec: StoreSpec, *, expected: bool) -> None:
    assert spec.is_in_record_cache is expected
