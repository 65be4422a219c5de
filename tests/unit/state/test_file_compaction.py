"""The files of a database are rewritten while it is used."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.state.file_compaction import CompactionProgress
from millrace.state.rocksdb import DatabaseOptions, RocksDatabase

KEYS = [f"{number:06}".encode() for number in range(20_000)]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[RocksDatabase]:
    opened = RocksDatabase(tmp_path / "rocksdb", {"counts": None}, options=DatabaseOptions())
    yield opened
    opened.close()


def write(database: RocksDatabase, keys: list[bytes], *, deletes: bool = False) -> None:
    batch = database.new_batch()
    database.put(batch, "store.counts", keys, [None if deletes else os.urandom(50) for _ in keys])
    database.write(batch)
    database.family("store.counts").flush()


def ended(database: RocksDatabase) -> CompactionProgress:
    deadline = time.monotonic() + 60
    while (progress := database.compaction) is not None and progress.running:
        assert time.monotonic() < deadline
    assert progress is not None
    return progress


def test_deleted_rows_leave_the_disk_and_the_others_stay(database: RocksDatabase) -> None:
    write(database, KEYS)
    write(database, KEYS[100:], deletes=True)
    database.begin_compaction(budget_s=60)
    write(database, [b"while it runs"])
    progress = ended(database)
    assert progress.problem == ""
    assert progress.bytes_after["counts"] < progress.bytes_before["counts"] / 10
    assert [key for key, _ in database.bytes_store("counts").scan(b"")] == [*KEYS[:100], b"while it runs"]


def test_a_compaction_without_time_left_begins_no_part(database: RocksDatabase) -> None:
    write(database, KEYS)
    database.begin_compaction(budget_s=-1)
    assert ended(database).problem == "the time was over"


def test_a_database_is_closed_and_opened_again_in_the_middle_of_a_compaction(tmp_path: Path) -> None:
    path = tmp_path / "rocksdb"
    database = RocksDatabase(path, {"counts": None}, options=DatabaseOptions())
    for _ in range(3):
        write(database, KEYS)
    database.begin_compaction(budget_s=60)
    database.close()
    again = RocksDatabase(path, {"counts": None}, options=DatabaseOptions())
    assert [key for key, _ in again.bytes_store("counts").scan(b"")] == KEYS
    again.close()
