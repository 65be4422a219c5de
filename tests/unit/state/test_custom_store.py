"""A user's store: committed once a batch, rolled back by never being told, brought forward after a crash."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from millrace.errors import StateError, StateWriteError
from millrace.state import TaskPosition, TaskState
from millrace.topology.custom_stores import StateStore
from millrace.topology.stores import StoreKind, StoreSpec
from tests.sqlite_store import SqliteStore, VolatileStore
from tests.unit.state.specs import key_value

IN = ("in", 0)


class BrokenStore(SqliteStore):
    """Its disk is full from the second write on."""

    writes = 0

    def write(self, entries: Sequence[tuple[bytes, bytes | None]], checkpoint: bytes) -> None:
        """Fails the second time."""
        self.writes += 1
        if self.writes > 1:
            raise OSError("no space left on device")
        super().write(entries, checkpoint)


def own(name: str = "own", **fields: object) -> StoreSpec:
    return key_value(name, custom=SqliteStore, **fields)


def put(state: TaskState, store: str, **entries: str | None) -> None:
    keys = [key.encode() for key in entries]
    values = [None if value is None else value.encode() for value in entries.values()]
    state.key_value_store(store).put_many(keys, values, np.arange(len(keys), dtype=np.int64) + 1)


def content(state: TaskState, store: str = "own") -> dict[str, str]:
    return {key.decode(): value.decode() for key, value, _ in state.key_value_store(store).all()}


def commit(state: TaskState, offset: int, **changelogs: int) -> None:
    state.drain_changelog()
    state.commit(TaskPosition(inputs={IN: offset}, changelogs=changelogs, written_at_ms=offset))


def test_the_stores_of_these_tests_are_what_the_protocol_asks_for() -> None:
    assert isinstance(SqliteStore("x"), StateStore)


def test_a_batch_that_fails_never_reaches_the_store(tmp_path: Path) -> None:
    state = TaskState.open(tmp_path, [own()])
    put(state, "own", a="1", b="2")
    commit(state, 1)
    put(state, "own", a="changed", b=None, c="3")
    assert content(state) == {"a": "changed", "c": "3"}
    state.rollback()
    assert content(state) == {"a": "1", "b": "2"}
    commit(state, 2)
    state.close()
    again = TaskState.open(tmp_path, [own()])
    assert content(again) == {"a": "1", "b": "2"}
    again.close()


def test_a_persistent_store_keeps_the_position_it_stands_for(tmp_path: Path) -> None:
    state = TaskState.open(tmp_path, [own(), key_value("rocks")])
    put(state, "own", a="1")
    commit(state, 7, own=3, rocks=4)
    state.close()
    again = TaskState.open(tmp_path, [own(), key_value("rocks")])
    assert again.position.inputs == {IN: 7}
    assert again.position.changelogs == {"own": 3, "rocks": 4}
    assert content(again) == {"a": "1"}
    again.close()


def test_a_task_with_no_other_store_has_its_position_from_the_users_store(tmp_path: Path) -> None:
    state = TaskState.open(tmp_path, [own()])
    put(state, "own", a="1")
    commit(state, 7, own=3)
    state.close()
    again = TaskState.open(tmp_path, [own()])
    assert (again.position.inputs, again.position.changelogs) == ({IN: 7}, {"own": 3})
    assert again.position.written_at_ms == 7
    again.close()


def test_after_a_crash_between_the_writes_each_store_is_brought_forward_from_its_own_position(tmp_path: Path) -> None:
    state = TaskState.open(tmp_path, [own(), key_value("rocks")])
    put(state, "own", a="1")
    put(state, "rocks", a="1")
    commit(state, 1, own=1, rocks=1)
    put(state, "own", a="2")
    put(state, "rocks", a="2")
    state.drain_changelog()
    database = state._database
    assert database is not None

    def dies(_: object) -> None:
        raise KeyboardInterrupt

    database.write = dies  # type: ignore[assignment, method-assign]
    with pytest.raises(KeyboardInterrupt):
        state.commit(TaskPosition(inputs={IN: 2}, changelogs={"own": 2, "rocks": 2}, written_at_ms=2))
    state.close()

    again = TaskState.open(tmp_path, [own(), key_value("rocks")])
    assert (content(again), content(again, "rocks")) == ({"a": "2"}, {"a": "1"})
    # No input is in all of them, and a replay begins where each is.
    assert again.position.inputs == {}
    assert again.position.changelogs == {"own": 2, "rocks": 1}
    again.close()


def test_a_store_whose_file_is_gone_is_restored_whole_and_the_others_are_not(tmp_path: Path) -> None:
    state = TaskState.open(tmp_path, [own(), key_value("rocks")])
    put(state, "own", a="1")
    commit(state, 5, own=1, rocks=1)
    state.close()
    for path in tmp_path.glob("own.sqlite*"):
        path.unlink()
    again = TaskState.open(tmp_path, [own(), key_value("rocks")])
    assert (again.position.inputs, again.position.changelogs) == ({}, {"rocks": 1})
    again.close()


def test_changelog_records_go_into_the_store_and_leave_its_position_until_the_commit(tmp_path: Path) -> None:
    state = TaskState.open(tmp_path, [own()])
    put(state, "own", a="1", b="2")
    commit(state, 1, own=2)
    stamps = np.array([5, 6], dtype=np.int64)
    assert state.restore_batch("own", [b"a", b"b"], [b"restored", None], stamps) == 2
    state.close()
    again = TaskState.open(tmp_path, [own()])
    assert content(again) == {"a": "restored"}
    assert again.position.changelogs == {"own": 2}
    again.close()


def test_a_store_that_forgets_is_restored_from_the_beginning(tmp_path: Path) -> None:
    spec = key_value("own", custom=VolatileStore)
    state = TaskState.open(tmp_path, [spec])
    put(state, "own", a="1")
    commit(state, 1, own=1)
    assert content(state) == {"a": "1"}
    state.close()
    again = TaskState.open(tmp_path, [spec])
    assert content(again) == {}
    assert "own" not in again.position.changelogs
    again.close()


def test_a_wipe_empties_the_store_and_forgets_its_position(tmp_path: Path) -> None:
    state = TaskState.open(tmp_path, [own()])
    put(state, "own", a="1")
    commit(state, 1, own=1)
    state.wipe()
    assert (content(state), state.position) == ({}, TaskPosition())
    put(state, "own", b="2")
    commit(state, 2, own=1)
    assert content(state) == {"b": "2"}
    state.close()


def test_windows_in_a_users_store_know_after_a_restart_what_has_expired(tmp_path: Path) -> None:
    minute = 60_000
    spec = StoreSpec(
        name="own", kind=StoreKind.WINDOW, window_size_ms=minute, retention_ms=2 * minute, custom=SqliteStore
    )
    state = TaskState.open(tmp_path, [spec])
    store = state.window_store("own")
    for number in range(6):
        store.put_many([b"k"], np.array([number * minute]), [b"%d" % number], np.array([number]))
    commit(state, 1)
    state.close()
    again = TaskState.open(tmp_path, [spec])
    assert again.window_store("own").observed_stream_time == 5 * minute
    assert [start // minute for _, start, _, _ in again.window_store("own").all()] == [4, 5]
    assert again.sizes()["own"][0] == 3
    again.close()


def test_a_store_that_cannot_write_is_named_and_nothing_else_is_committed(tmp_path: Path) -> None:
    state = TaskState.open(tmp_path, [key_value("own", custom=BrokenStore), key_value("rocks")])
    put(state, "rocks", a="1")
    commit(state, 1)
    put(state, "own", a="2")
    put(state, "rocks", a="2")
    state.drain_changelog()
    with pytest.raises(StateWriteError, match=r"store own \(BrokenStore\) refused a write: OSError: no space"):
        state.commit(TaskPosition(inputs={IN: 2}))
    state.close()
    again = TaskState.open(tmp_path, [key_value("rocks")])
    assert content(again, "rocks") == {"a": "1"}
    again.close()


def test_what_is_no_store_is_refused_with_what_it_lacks() -> None:
    with pytest.raises(StateError, match="made for the store own is a dict, which lacks methods of StateStore"):
        TaskState.open(None, [key_value("own", custom=lambda _: {})])
    with pytest.raises(StateError, match="store own cannot be opened: ZeroDivisionError"):
        TaskState.open(None, [key_value("own", custom=lambda _: 1 // 0)])
