"""Databases whose files were damaged or removed: that is noticed, and never taken for the end of a store."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from millrace.errors import StateCorruptedError
from millrace.state import StateOptions, TaskPosition, TaskState
from millrace.state.directory import DATABASE_DIRECTORY
from tests.damage import flip_bytes, flip_middle
from tests.unit.state.specs import key_value

ENTRIES = 20_000
KEYS = [b"%06d" % number for number in range(ENTRIES)]
POSITION = TaskPosition(inputs={("in", 0): ENTRIES}, changelogs={"kv": ENTRIES})


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A task's directory with 20,000 entries in a table of the database."""
    state = opened(tmp_path)
    random = np.random.default_rng(3)
    state.key_value_store("kv").put_many(KEYS, [random.bytes(40) for _ in KEYS], np.zeros(ENTRIES, np.int64))
    state.drain_changelog()
    state.commit(POSITION)
    state.close()
    opened(tmp_path).close()  # what was in the write-ahead log comes into a table
    return tmp_path


def opened(directory: Path) -> TaskState:
    return TaskState.open(directory, [key_value()], options=StateOptions(read_cache_bytes=0))


def test_a_read_of_a_damaged_block_is_an_error_and_known_afterwards(directory: Path) -> None:
    flip_middle(directory)
    state = opened(directory)
    assert not state.is_damaged
    with pytest.raises(StateCorruptedError, match=r"is damaged.*checksum mismatch.*\.sst"):
        state.key_value_store("kv").get_many(KEYS)
    assert state.is_damaged
    state.wipe()
    assert not state.is_damaged
    assert state.position == TaskPosition()
    assert state.key_value_store("kv").get(KEYS[0]) is None
    state.close()


def test_a_scan_never_takes_a_damaged_block_for_the_end(directory: Path) -> None:
    flip_middle(directory)
    state = opened(directory)
    with pytest.raises(StateCorruptedError, match="checksum mismatch"):
        list(state.key_value_store("kv").all())
    with pytest.raises(StateCorruptedError):
        list(state.key_value_store("kv").range(KEYS[ENTRIES // 4], KEYS[-1]))
    assert len(list(state.key_value_store("kv").range(KEYS[0], KEYS[9]))) == 10
    state.close()


@pytest.mark.parametrize("pattern", ["*.sst", "MANIFEST-*", "CURRENT"])
def test_a_database_that_cannot_be_opened_is_removed(directory: Path, pattern: str) -> None:
    if pattern == "CURRENT":
        (directory / DATABASE_DIRECTORY / "CURRENT").write_text("MANIFEST-999999\n")
    else:
        assert flip_bytes(directory, pattern)
    state = opened(directory)
    assert state.was_damaged
    assert state.position == TaskPosition()
    assert list(state.key_value_store("kv").all()) == []
    state.close()
    again = opened(directory)
    assert not again.was_damaged
    again.close()


def test_a_missing_table_is_damage(directory: Path) -> None:
    for table in (directory / DATABASE_DIRECTORY).glob("*.sst"):
        table.unlink()
    state = opened(directory)
    assert state.was_damaged
    state.close()


def test_a_damaged_write_ahead_log_takes_data_and_position_back_together(tmp_path: Path) -> None:
    state = opened(tmp_path)
    for number in range(50):
        state.key_value_store("kv").put_many([b"%d" % number], [b"v" * 100], np.zeros(1, np.int64))
        state.drain_changelog()
        state.commit(TaskPosition(inputs={("in", 0): number + 1}, changelogs={"kv": number + 1}))
    kept = tmp_path.with_name("kept")
    shutil.copytree(tmp_path, kept)
    state.close()
    assert flip_bytes(kept, "*.log")
    state = opened(kept)
    stands_for = state.position.inputs.get(("in", 0), 0)
    assert stands_for < 50
    assert len(list(state.key_value_store("kv").all())) == stands_for
    state.close()


def test_a_database_whose_directory_was_removed_refuses_writes_as_damaged(directory: Path) -> None:
    state = opened(directory)
    shutil.rmtree(directory / DATABASE_DIRECTORY)
    with pytest.raises(StateCorruptedError, match="No such file"):
        _write_until_buffers_are_full(state)
    assert state.is_damaged
    state.wipe()
    assert list(state.key_value_store("kv").all()) == []
    state.close()


def _write_until_buffers_are_full(state: TaskState) -> None:
    for number in range(100):
        store = state.key_value_store("kv")
        store.put_many(KEYS, [b"%d" % number * 100] * ENTRIES, np.zeros(ENTRIES, np.int64))
        state.drain_changelog()
        state.commit(POSITION)
