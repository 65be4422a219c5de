"""How far a task's directory is, read without opening its database."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from millrace.state import TaskPosition, TaskState
from millrace.state import position_note as module
from millrace.state.position_note import PositionNote, PositionNotes, read_position_note
from millrace.topology.stores import StoreBackend, StoreKind, StoreSpec

COUNTS = StoreSpec(name="counts", kind=StoreKind.KEY_VALUE)
TABLE = StoreSpec(name="table", kind=StoreKind.KEY_VALUE, source_topic="in")
MEMORY = StoreSpec(name="memory", kind=StoreKind.KEY_VALUE, backend=StoreBackend.MEMORY)


def position(changelog: int, *, standby: bool = False) -> TaskPosition:
    return TaskPosition(
        inputs={} if standby else {("in", 0): 30, ("other", 0): 1000},
        changelogs={"counts": changelog, "memory": 7, **({"table": 30} if standby else {})},
        written_at_ms=int(time.time() * 1000),
        standby=standby,
    )


def test_a_task_and_its_standby_copy_at_the_same_offsets_have_the_same_position() -> None:
    stores = [COUNTS, TABLE]
    assert PositionNote.of(position(12), stores) == PositionNote(42, standby=False)
    assert PositionNote.of(position(12, standby=True), stores) == PositionNote(42, standby=True)


def test_a_directory_tells_how_far_it_is_while_it_is_open_and_after_it_was_closed(tmp_path: Path) -> None:
    directory = tmp_path / "0_0"
    assert read_position_note(directory) is None
    state = TaskState.open(directory, [COUNTS, TABLE, MEMORY])
    for number in (1, 2, 3):
        store = state.key_value_store("counts")
        store.put_many([b"k"], [b"v"], np.array([number], dtype=np.int64))
        state.drain_changelog()
        state.commit(position(number))
    assert read_position_note(directory) == PositionNote(31), "the first commit; the next ones came a moment later"
    state.close()
    assert read_position_note(directory) == PositionNote(33), "what is in memory is gone, and does not count"


def test_a_wiped_directory_is_nowhere(tmp_path: Path) -> None:
    state = TaskState.open(tmp_path / "0_0", [COUNTS])
    state.commit(position(5))
    state.wipe()
    assert read_position_note(tmp_path / "0_0") is None
    state.close()
    assert read_position_note(tmp_path / "0_0") is None


def test_a_position_is_noted_every_few_seconds_and_only_where_it_has_moved(tmp_path: Path) -> None:
    now = [100.0]
    notes = PositionNotes(tmp_path, [COUNTS], lambda: now[0])
    notes.note(position(1))
    now[0] += module.NOTE_INTERVAL_S - 0.1
    notes.note(position(2))
    assert read_position_note(tmp_path) == PositionNote(1)
    now[0] += 0.2
    notes.note(position(2))
    assert read_position_note(tmp_path) == PositionNote(2)
    written = (tmp_path / module.NOTE_FILE).stat().st_mtime_ns
    now[0] += 100
    notes.note(position(2))
    assert (tmp_path / module.NOTE_FILE).stat().st_mtime_ns == written


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"position": 1, "more": 2}'])
def test_what_is_no_note_counts_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / module.NOTE_FILE).write_bytes(content)
    assert read_position_note(tmp_path) is None


def test_a_note_that_could_not_be_written_is_written_with_the_next_of_the_same_position(tmp_path: Path) -> None:
    now = [100.0]
    directory = tmp_path / "0_0"
    notes = PositionNotes(directory, [COUNTS], lambda: now[0])
    notes.note(position(5))
    assert read_position_note(directory) is None, "there is no directory"
    directory.mkdir()
    notes.note(position(5))
    assert read_position_note(directory) is None, "it was tried a moment ago"
    now[0] += module.NOTE_INTERVAL_S
    notes.note(position(5))
    assert read_position_note(directory) == PositionNote(5)
