from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from millrace.errors import StateError
from millrace.state import TaskPosition, TaskState
from tests.unit.state.specs import key_value, window

MINUTE = 60_000
Load = Callable[[TaskState], None]


def _batch(state: TaskState, store: str, records: list[tuple[bytes, bytes | None]], timestamp: int = 1_000) -> None:
    keys = [key for key, _ in records]
    state.restore_batch(store, keys, [value for _, value in records], np.full(len(keys), timestamp))


def _numbered(first: int, count: int, value: bytes = b"v") -> list[tuple[bytes, bytes | None]]:
    return [(b"%08d" % number, value) for number in range(first, first + count)]


def _open(directory: Path) -> TaskState:
    return TaskState.open(directory, [key_value(), window(retention_ms=10 * MINUTE)])


def _entries(state: TaskState) -> dict[bytes, bytes]:
    return {key: value for key, value, _ in state.key_value_store("kv").all()}


def _load_half(state: TaskState) -> None:
    state.begin_load("kv")
    state.begin_load("win")
    for first in range(0, 200_000, 20_000):
        _batch(state, "kv", _numbered(first, 20_000, b"half" * 30))
    _batch(state, "win", [(b"k" + (700_000).to_bytes(8, "big") + bytes(4), b"1")], timestamp=700_000)


def _load_whole(state: TaskState) -> None:
    _load_half(state)
    state.commit(TaskPosition(changelogs={"kv": 200_000, "win": 1}))


def _load_and_commit_more(state: TaskState) -> None:
    _load_whole(state)
    state.key_value_store("kv").put_many([b"later"], [b"1"], np.array([1]))
    state.drain_changelog()
    state.commit(TaskPosition(changelogs={"kv": 200_001, "win": 1}))


def _die_after(load: Load, directory: Path) -> None:
    load(_open(directory))
    os.kill(os.getpid(), signal.SIGKILL)


def _killed_after(load: Load, directory: Path) -> TaskState:
    process = multiprocessing.get_context("spawn").Process(target=_die_after, args=(load, directory))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    return _open(directory)


def test_a_load_that_was_killed_leaves_an_empty_store_without_a_position(tmp_path: Path) -> None:
    state = _killed_after(_load_half, tmp_path / "0_0")

    assert _entries(state) == {}
    assert list(state.window_store("win").all()) == []
    assert state.window_store("win").observed_stream_time == -1
    assert state.position.changelogs == {}
    state.begin_load("kv")
    _batch(state, "kv", _numbered(0, 3))
    state.commit(TaskPosition(changelogs={"kv": 3}))
    assert _entries(state) == {b"00000000": b"v", b"00000001": b"v", b"00000002": b"v"}
    state.close()


@pytest.mark.parametrize("load", [_load_whole, _load_and_commit_more])
def test_a_load_that_was_committed_survives_a_kill(load: Load, tmp_path: Path) -> None:
    state = _killed_after(load, tmp_path / "0_0")

    expected = 200_000 + (load is _load_and_commit_more)
    assert len(_entries(state)) == expected
    assert state.position.changelogs == {"kv": expected, "win": 1}
    assert state.window_store("win").observed_stream_time == 700_000
    state.close()


def test_duplicates_and_tombstones_of_a_load_end_as_the_last_record_says(tmp_path: Path) -> None:
    state = _open(tmp_path / "0_0")
    state.begin_load("kv")
    _batch(state, "kv", [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1")])
    _batch(state, "kv", [(b"b", None), (b"c", b"2"), (b"c", None), (b"d", None)])
    assert _entries(state) == {b"a": b"2"}
    state.commit(TaskPosition(changelogs={"kv": 8}))
    state.close()

    reopened = _open(tmp_path / "0_0")
    assert _entries(reopened) == {b"a": b"2"}
    reopened.close()


def test_a_store_with_a_position_is_not_loaded_anew(tmp_path: Path) -> None:
    state = _open(tmp_path / "0_0")
    _batch(state, "kv", _numbered(0, 3))
    state.commit(TaskPosition(changelogs={"kv": 3}))

    with pytest.raises(StateError, match="kv has a position"):
        state.begin_load("kv")
    state.close()


def test_a_store_that_has_entries_is_filled_as_before(tmp_path: Path) -> None:
    state = _open(tmp_path / "0_0")
    _batch(state, "kv", _numbered(0, 3))
    state.begin_load("kv")
    state.close()

    reopened = _open(tmp_path / "0_0")
    assert len(_entries(reopened)) == 3
    reopened.close()


def test_a_loaded_store_is_compacted_and_written_on(tmp_path: Path) -> None:
    """Loads leave files that normal settings would stop writes for; the commits after it go on."""
    state = _open(tmp_path / "0_0")
    state.begin_load("kv")
    for _ in range(40):
        _batch(state, "kv", _numbered(0, 20_000, os.urandom(200)))
    state.commit(TaskPosition(changelogs={"kv": 800_000}))
    for turn in range(20):
        state.key_value_store("kv").put_many([b"%08d" % turn], [b"after"], np.array([2_000]))
        state.drain_changelog()
        state.commit(TaskPosition(changelogs={"kv": 800_001 + turn}))
    entries = _entries(state)
    assert len(entries) == 20_000
    assert sum(value == b"after" for value in entries.values()) == 20
    state.close()


def test_stores_in_memory_take_no_load() -> None:
    state = TaskState.open(None, [key_value()])
    state.begin_load("kv")
    _batch(state, "kv", _numbered(0, 3))
    assert len(_entries(state)) == 3
    state.close()
