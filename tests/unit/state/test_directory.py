from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.errors import StateDirectoryLockedError
from millrace.state import DirectoryLock, StateDirectory, TaskState, lock_holder
from tests.unit.state.specs import key_value

HOLDER = """
import sys
from pathlib import Path
from millrace.state import TaskState
from millrace.topology.stores import StoreKind, StoreSpec
state = TaskState.open(Path(sys.argv[1]), [StoreSpec(name="kv", kind=StoreKind.KEY_VALUE)])
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "app" / "0_0")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    yield process
    process.kill()
    process.communicate()


def test_another_process_is_refused_until_it_dies_and_its_lock_file_means_nothing_then(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    """Case S11."""
    directory = StateDirectory(tmp_path).task("app", 0, 0)
    with pytest.raises(StateDirectoryLockedError, match=f"{directory} is in use by process {holder.pid}"):
        TaskState.open(directory, [key_value()])
    identity = lock_holder(directory)
    assert identity is not None
    assert identity.pid == holder.pid
    assert identity.is_alive()

    holder.send_signal(signal.SIGKILL)
    holder.wait()

    assert not identity.is_alive()
    TaskState.open(directory, [key_value()]).close()


def test_another_application_in_the_same_state_dir_is_separate(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    """Case S11."""
    TaskState.open(StateDirectory(tmp_path).task("other", 0, 0), [key_value()]).close()

    assert StateDirectory(tmp_path).tasks("other") == [(0, 0)]


def test_clean_refuses_while_a_task_is_open_and_removes_everything_afterwards(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    """Case S12."""
    directory = StateDirectory(tmp_path)
    TaskState.open(directory.task("app", 1, 2), [key_value()]).close()

    with pytest.raises(StateDirectoryLockedError, match="0_0"):
        directory.clean("app")
    assert directory.tasks("app") == [(0, 0), (1, 2)]
    assert (directory.task("app", 1, 2) / "rocksdb" / "CURRENT").exists()

    holder.kill()
    holder.wait()
    assert directory.clean("app") == [(0, 0), (1, 2)]
    assert not directory.application("app").exists()
    assert directory.clean("app") == []


def test_clean_refuses_while_the_driver_runs(tmp_path: Path) -> None:
    """Case S12."""
    directory = StateDirectory(tmp_path)
    driver = DirectoryLock(directory.application("app"))
    directory.task("app", 0, 0).mkdir()

    with pytest.raises(StateDirectoryLockedError, match="app is in use"):
        directory.clean("app")
    assert directory.tasks("app") == [(0, 0)]

    driver.release()
    assert directory.clean("app") == [(0, 0)]


def test_a_copy_of_a_global_store_that_is_open_keeps_the_state_where_it_is(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path)
    copy = directory.global_store("app", "rows") / "0"
    lock = DirectoryLock(copy)
    assert directory.global_copies("app") == [copy]
    assert directory.tasks("app") == []
    with pytest.raises(StateDirectoryLockedError):
        directory.clean("app")
    assert copy.is_dir()
    lock.release()
    directory.clean("app")
    assert not directory.application("app").exists()


def test_tasks_are_the_directories_named_after_one(tmp_path: Path) -> None:
    for name in ("0_1", "10_2", "0_0", "notes", "1_x", "a_b_c"):
        (tmp_path / "app" / name).mkdir(parents=True)

    assert StateDirectory(tmp_path).tasks("app") == [(0, 0), (0, 1), (10, 2)]
    assert StateDirectory(tmp_path).tasks("nobody") == []


def test_a_lock_is_free_again_after_release_and_release_is_idempotent(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    lock.release()
    lock.release()

    DirectoryLock(tmp_path).release()


def test_a_forked_child_neither_keeps_nor_gives_back_the_lock_of_its_parent(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write_end)
        os.read(read_end, 1)
        os._exit(0)
    os.close(read_end)
    short_lived = os.fork()
    if short_lived == 0:
        os._exit(0)
    os.waitpid(short_lived, 0)

    with pytest.raises(StateDirectoryLockedError):
        DirectoryLock(tmp_path)
    lock.release()
    DirectoryLock(tmp_path).release()

    os.close(write_end)
    os.waitpid(child, 0)
