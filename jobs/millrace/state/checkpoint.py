"""A checkpoint of a task's stores: a directory that does not change after it was written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from millrace.errors import StateError
from millrace.state.contents import in_batches
from millrace.state.directory import DATABASE_DIRECTORY
from millrace.state.layered import LayeredStore
from millrace.state.record_file import write_records
from millrace.state.rocksdb import RocksDatabase

_SUFFIX = ".records"


def write_checkpoint(directory: Path, database: RocksDatabase | None, others: Mapping[str, LayeredStore]) -> None:
    """Writes a checkpoint.

    Args:
        directory: where; must not exist.
        database: the task's database, copied in hard links.
        others: the stores outside of it, which are written as records.

    Raises:
        StateError: the directory exists, or the disk fails.
    """
    try:
        directory.mkdir(parents=True)
        if database is not None:
            database.checkpoint(directory / DATABASE_DIRECTORY)
        for name, store in others.items():
            write_records(records_file(directory, name), in_batches(store.records(), store.record_headers))
    except OSError as error:
        raise StateError(
            f"The checkpoint {directory} cannot be written: {error}.",
            remedy="free space on the disk of state.dir, or correct its permissions",
        ) from error


def records_file(directory: Path, store: str) -> Path:
    """Returns the file of a store whose checkpoint consists of records."""
    return directory / f"{store}{_SUFFIX}"
