from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from millrace.errors import StateDirectoryLockedError, StateError
from millrace.state import TaskPosition, TaskState
from millrace.topology.stores import StoreBackend
from tests.unit.state.specs import OpenState, key_value, window

MINUTE = 60_000
POSITION = TaskPosition(
    inputs={("payments", 0): 12, ("users", 0): 3},
    changelogs={"kv": 7, "win": 0},
    stream_times={"node": 5},
    written_at_ms=1_700_000_000_000,
    counters={"late": 2},
    run_id=4,
)


def _fill(state: TaskState) -> None:
    state.key_value_store("kv").put_many([b"a"], [b"1"], np.array([5]))
    state.window_store("win").put_many([b"a"], np.array([MINUTE]), [b"2"], np.array([MINUTE + 5]))
    state.drain_changelog()


def test_position_and_data_survive_closing_and_offset_zero_is_an_offset(tmp_path: Path) -> None:
    """Case S01."""
    state = TaskState.open(tmp_path, [key_value(), window()])
    _fill(state)
    state.commit(POSITION)
    state.close()
    state.close()

    state = TaskState.open(tmp_path, [key_value(), window()])

    assert state.position == POSITION
    assert state.position.changelogs["win"] == 0
    assert state.key_value_store("kv").get(b"a") == (b"1", 5)
    assert state.window_store("win").fetch_many([b"a"], np.array([MINUTE]))[0] == [b"2"]
    assert state.window_store("win").observed_stream_time == MINUTE
    state.close()


def test_uncommitted_writes_are_gone_after_closing(open_state: OpenState) -> None:
    """Case S04."""
    state = open_state(key_value(), window())
    _fill(state)
    state.close()

    state = open_state(key_value(), window())

    assert list(state.key_value_store("kv").all()) == []
    assert list(state.window_store("win").all()) == []
    assert state.position == TaskPosition()


def test_a_memory_store_beside_a_database_has_no_changelog_offset_after_a_restart(tmp_path: Path) -> None:
    specs = [key_value(), window(backend=StoreBackend.MEMORY)]
    state = TaskState.open(tmp_path, specs)
    _fill(state)
    state.commit(POSITION)
    assert state.position == POSITION
    assert state.window_store("win").fetch_many([b"a"], np.array([MINUTE]))[0] == [b"2"]
    state.close()

    state = TaskState.open(tmp_path, specs)

    assert dict(state.position.changelogs) == {"kv": 7}
    assert dict(state.position.inputs) == dict(POSITION.inputs)
    assert list(state.window_store("win").all()) == []
    state.close()


def test_a_store_that_left_the_topology_keeps_its_data(tmp_path: Path) -> None:
    for specs in ([key_value(), window()], [window()], [key_value(), window()]):
        state = TaskState.open(tmp_path, specs)
        if len(specs) == 2 and not state.position.inputs:
            _fill(state)
            state.commit(POSITION)
        state.close()

    state = TaskState.open(tmp_path, [key_value(), window()])
    assert state.key_value_store("kv").get(b"a") == (b"1", 5)
    state.close()


def test_a_wiped_state_is_empty_and_usable(open_state: OpenState) -> None:
    state = open_state(key_value(), window())
    _fill(state)
    state.commit(POSITION)

    state.wipe()

    assert state.position == TaskPosition()
    assert list(state.key_value_store("kv").all()) == []
    assert state.window_store("win").observed_stream_time == -1
    _fill(state)
    state.commit(POSITION)
    assert state.key_value_store("kv").get(b"a") == (b"1", 5)


def test_a_commit_refuses_changes_that_no_changelog_has(open_state: OpenState) -> None:
    state = open_state(key_value())
    state.key_value_store("kv").put_many([b"a"], [b"1"], np.array([5]))

    with pytest.raises(StateError, match="Changes of kv were not drained"):
        state.commit(POSITION)


def test_a_closed_state_says_so(open_state: OpenState) -> None:
    state = open_state(key_value())
    state.close()

    with pytest.raises(StateError, match="is closed"):
        state.commit(POSITION)


def test_restored_records_are_read_without_being_logged_and_expired_windows_are_skipped(open_state: OpenState) -> None:
    state = open_state(key_value(), window(retention_ms=2 * MINUTE))
    source = TaskState.open(None, [key_value(), window(retention_ms=10 * MINUTE)])
    source.key_value_store("kv").put_many([b"a", b"b", b"a"], [b"1", b"2", None], np.array([1, 2, 3]))
    source.window_store("win").put_many(
        [b"a", b"b", b"a"], np.array([0, 5 * MINUTE, 5 * MINUTE]), [b"1", b"2", b"3"], np.array([1, 2, 3])
    )

    taken = {
        batch.store: state.restore_batch(batch.store, batch.keys, batch.values, batch.timestamps)
        for batch in source.drain_changelog()
    }

    assert taken == {"kv": 2, "win": 2}
    assert state.position == TaskPosition()
    assert state.drain_changelog() == []
    assert list(state.key_value_store("kv").all()) == [(b"b", b"2", 2)]
    assert state.key_value_store("kv").get(b"b") == (b"2", 2)
    assert [(key, value) for key, _, value, _ in state.window_store("win").all()] == [(b"a", b"3"), (b"b", b"2")]
    assert state.window_store("win").fetch_many([b"b"], np.array([5 * MINUTE]))[0] == [b"2"]
    assert state.window_store("win").observed_stream_time == 5 * MINUTE
    state.commit(POSITION)
    assert state.position == POSITION


def test_restoring_over_uncommitted_writes_is_refused(open_state: OpenState) -> None:
    state = open_state(key_value())
    state.key_value_store("kv").put_many([b"a"], [b"1"], np.array([5]))

    with pytest.raises(StateError, match="uncommitted writes"):
        state.restore_batch("kv", [b"a"], [b"2"], np.array([6]))


def test_sizes_are_about_what_was_committed(open_state: OpenState) -> None:
    state = open_state(key_value(), window())
    keys = [b"%04d" % number for number in range(1_000)]
    state.key_value_store("kv").put_many(keys, [b"x" * 100 for _ in keys], np.arange(1_000))
    state.drain_changelog()
    state.commit(POSITION)

    entries, size = state.sizes()["kv"]

    assert entries == 1_000
    assert size > 100_000
    assert state.sizes()["win"][0] == 0


def test_a_second_state_on_the_directory_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    """Case S11."""
    first = TaskState.open(tmp_path, [key_value()])

    with pytest.raises(StateDirectoryLockedError, match=str(tmp_path)) as raised:
        TaskState.open(tmp_path, [key_value()])

    assert str(os.getpid()) in raised.value.message
    first.key_value_store("kv").put_many([b"a"], [b"1"], np.array([5]))
    first.drain_changelog()
    first.commit(POSITION)
    first.close()
    TaskState.open(tmp_path, [key_value()]).close()


def test_a_database_that_cannot_be_opened_names_its_directory(tmp_path: Path) -> None:
    (tmp_path / "rocksdb").write_text("a file where the directory has to be")

    with pytest.raises(StateError, match=str(tmp_path / "rocksdb")):
        TaskState.open(tmp_path, [key_value()])

    # The failed opening left no lock behind.
    (tmp_path / "rocksdb").unlink()
    (tmp_path / "rocksdb.removed").mkdir()
    TaskState.open(tmp_path, [key_value()]).close()
    assert not (tmp_path / "rocksdb.removed").exists()


WRITER = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    import numpy as np
    from millrace.state import TaskPosition, TaskState
    from millrace.topology.stores import StoreKind, StoreSpec

    state = TaskState.open(
        Path(sys.argv[1]),
        [
            StoreSpec(name="kv", kind=StoreKind.KEY_VALUE),
            StoreSpec(name="win", kind=StoreKind.WINDOW, retention_ms=10 * 60_000),
        ],
    )
    keys = [b"%04d" % number for number in range(500)]
    round_ = state.position.inputs.get(("in", 0), 0)
    while True:
        round_ += 1
        values = [b"%d" % round_] * len(keys)
        state.key_value_store("kv").put_many(keys, values, np.full(len(keys), round_))
        starts = np.full(len(keys), round_ // 20 * 60_000)
        state.window_store("win").put_many(keys, starts, values, starts)
        state.drain_changelog()
        print("written", round_, flush=True)
        state.commit(TaskPosition(inputs={("in", 0): round_}))
        print("committed", round_, flush=True)
    """
)


def test_after_kill_9_at_any_moment_data_and_position_are_of_the_same_commit(tmp_path: Path) -> None:
    """Cases S04 and S11: no half commit, and the dead process's lock does not block."""
    chance = random.Random(7)
    acknowledged = 0
    for _ in range(4):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True, env={**os.environ}
        )
        assert process.stdout is not None
        rounds = chance.randint(3, 15)
        for line in process.stdout:
            what, number = line.split()
            if what == "committed":
                acknowledged = int(number)
                rounds -= 1
            # Sometimes right before the commit, else at a random moment around it.
            if rounds <= 0 and (what == "written" or chance.random() < 0.5):
                time.sleep(chance.random() * 0.003)
                break
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()

        state = TaskState.open(tmp_path, [key_value(), window(retention_ms=10 * MINUTE)])
        reached = state.position.inputs["in", 0]
        assert reached >= acknowledged
        values = {value for _, value, _ in state.key_value_store("kv").all()}
        assert values == {b"%d" % reached}
        newest = [value for _, start, value, _ in state.window_store("win").all() if start == reached // 20 * MINUTE]
        assert newest == [b"%d" % reached] * 500
        assert state.window_store("win").observed_stream_time == reached // 20 * MINUTE
        state.close()
