from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path

import pytest

from millrace.files import lock_file, unlock_file, write_atomically


def test_a_file_is_replaced_as_a_whole_with_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "made" / "file"
    before = os.umask(0o027)
    try:
        write_atomically(path, b"old")
    finally:
        os.umask(before)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"old", 0o640), "as the process says"
    with path.open("rb") as reader:
        write_atomically(path, b"new", mode=0o600, waits_for_disk=False)
        assert reader.read() == b"old", "who has it open reads on what it opened"
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o600)
    assert list(path.parent.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_content_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(_: int) -> None:
        raise OSError("no space")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_directory_may_be_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "removed" / "file", b"content", makes_directory=False)
    assert list(tmp_path.iterdir()) == []


def test_one_at_a_time_has_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "made" / "lock"
    first = lock_file(path)
    assert first is not None
    assert lock_file(path) is None
    unlock_file(first)
    second = lock_file(path, timeout_s=None)
    assert second is not None
    unlock_file(second)


def test_a_lock_that_another_has_is_waited_for_no_longer_than_said(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = lock_file(path)
    assert first is not None
    begin = time.monotonic()
    assert lock_file(path, timeout_s=0.2) is None
    assert time.monotonic() - begin >= 0.2
    threading.Timer(0.2, unlock_file, [first]).start()
    second = lock_file(path, timeout_s=60)
    assert second is not None
    unlock_file(second)


def test_a_lock_on_a_file_that_is_removed_meanwhile_is_taken_on_the_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    lock = fcntl.flock
    removed: list[int] = []

    def remove_first(descriptor: int, operation: int) -> None:
        if not removed:
            removed.append(os.fstat(descriptor).st_ino)
            path.unlink()
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    descriptor = lock_file(path)
    assert descriptor is not None
    assert removed
    assert os.fstat(descriptor).st_ino == path.stat().st_ino
    assert lock_file(path) is None
    unlock_file(descriptor)
