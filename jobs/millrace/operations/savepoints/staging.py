"""The files of a savepoint on the local disk, before its stores are what the application has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from millrace.config import StreamsConfig
from millrace.operations.savepoints.manifest import Manifest
from millrace.operations.savepoints.repository import SavepointRepository, saved_file
from millrace.state import StateDirectory, StateOptions, TaskState
from millrace.state.checkpoint import records_file
from millrace.state.record_file import RecordBatch, read_records
from millrace.topology.stores import StoreBackend, StoreSpec

RESTORING_DIRECTORY = "restoring"


def staging_directory(config: StreamsConfig, savepoint: str) -> Path:
    """Where the files of a savepoint go: on the file system of the state, so that they can be moved into place."""
    state = StateDirectory(Path(config.state_dir).absolute())
    return state.application(config.application_id) / RESTORING_DIRECTORY / savepoint


def fetch(repository: SavepointRepository, manifest: Manifest, directory: Path, progress: Callable[[str], None]) -> int:
    """Bring all files here and check them; what is here already stays.

    Returns:
        how many bytes there are.

    Raises:
        OperationError: a file is missing or damaged.
    """
    done = 0
    for number, file in enumerate(manifest.files, 1):
        target = directory / file.path
        if not (target.exists() and target.stat().st_size == file.size and saved_file(target, directory) == file):
            target.parent.mkdir(parents=True, exist_ok=True)
            repository.fetch(file, target)
        done += file.size
        progress(f"file {number} of {len(manifest.files)}, {done / 1e6:.1f} MB fetched and checked")
    return done


def is_in_database(store: StoreSpec) -> bool:
    """Whether a store's content lies in the files of its task's database."""
    return store.backend is StoreBackend.ROCKSDB and store.custom is None and store.capacity is None


@contextmanager
def opened(directory: Path, stores: Iterable[StoreSpec], config: StreamsConfig) -> Iterator[TaskState]:
    """The database of a task that was fetched, with the stores that the savepoint has in it, wherever they are now."""
    in_database = [
        replace(store, backend=StoreBackend.ROCKSDB, custom=None, capacity=None)
        for store in stores
        if not records_file(directory, store.name).exists()
    ]
    state = TaskState.open(directory, in_database, options=StateOptions.from_config(config))
    try:
        yield state
    finally:
        state.close()


def saved_records(state: TaskState, store: StoreSpec) -> Iterator[RecordBatch]:
    """What the savepoint has of a store, as changelog records."""
    assert state.directory is not None
    path = records_file(state.directory, store.name)
    return read_records(path) if path.exists() else state.records(store.name)
