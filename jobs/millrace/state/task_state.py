"""The state of one task: all its stores, which are committed together with the position that they reach."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import structlog

from millrace.config import StreamsConfig
from millrace.errors import StateCorruptedError, StateError
from millrace.state.bulk_load import BulkLoads, discard_interrupted_load, interrupted_loads
from millrace.state.bytes_store import BytesStore, MemoryBytesStore
from millrace.state.changelog import Changelog, ChangelogBatch
from millrace.state.checkpoint import write_checkpoint
from millrace.state.contents import in_batches
from millrace.state.custom import CustomBytesStore, open_custom_store, with_positions_of
from millrace.state.directory import DATABASE_DIRECTORY, DirectoryLock
from millrace.state.file_compaction import CompactionProgress
from millrace.state.join_window import JoinWindowStore
from millrace.state.key_value import LayeredKeyValueStore
from millrace.state.layered import LayeredStore
from millrace.state.layout import Int64Array
from millrace.state.lru import LruKeyValueStore
from millrace.state.position import TaskPosition
from millrace.state.position_note import PositionNotes
from millrace.state.record_file import RecordBatch
from millrace.state.rocksdb import MEBIBYTE, DatabaseOptions, RocksDatabase
from millrace.state.segments import Segments
from millrace.state.session import LayeredSessionStore
from millrace.state.stores import KeyValueStore, SessionStore, WindowStore
from millrace.state.suppression_buffer import SuppressionBuffer
from millrace.state.versioned import VersionedKeyValueStore
from millrace.state.versioned_layout import HistorySegments
from millrace.state.window import LayeredWindowStore
from millrace.topology.stores import StoreBackend, StoreKind, StoreSpec

POSITION_KEY = b"position"
SEGMENTS_KEY = b"segments."
_OTHER_METHOD = "use the method of its kind"

_log = structlog.get_logger(__name__)

_Store = (
    LayeredKeyValueStore
    | LayeredWindowStore
    | JoinWindowStore
    | LayeredSessionStore
    | SuppressionBuffer
    | VersionedKeyValueStore
)

StoreT = TypeVar("StoreT")


@dataclass(frozen=True, kw_only=True)
class StateOptions:
    """The memory and durability of a task's state.

    Args:
        database: memory and durability of the RocksDB database.
        read_cache_bytes: committed values that the RocksDB stores of the task keep as Python objects, together; a hit
            takes a tenth of a read through RocksDB's own cache.
    """

    database: DatabaseOptions = field(default_factory=DatabaseOptions)
    read_cache_bytes: int = 32 * MEBIBYTE

    @classmethod
    def from_config(cls, config: StreamsConfig) -> StateOptions:
        """Returns the options that the ``rocksdb.*`` settings define."""
        return cls(database=DatabaseOptions.from_config(config))


class TaskState:
    """The stores of one task, opened by :meth:`open`. Not thread-safe: a task has one thread.

    Writes go to an overlay that only this object sees. :meth:`commit` makes them, the position and the removal of
    expired segments durable in one write: after a crash all of it is there or nothing. What a crash loses, the
    changelogs have.
    """

    def __init__(self, directory: Path | None, stores: Sequence[StoreSpec], *, options: StateOptions) -> None:
        self._directory = directory
        self._specs = {spec.name: spec for spec in stores}
        self._options = options
        self._database: RocksDatabase | None = None
        self._loads: BulkLoads | None = None
        self._lock = DirectoryLock(directory) if directory is not None else None
        on_disk = [spec for spec in stores if self._is_persistent(spec)]
        self._notes = PositionNotes(directory, on_disk) if directory is not None and on_disk else None
        self._stores: dict[str, _Store] = {}
        self._custom: dict[str, CustomBytesStore] = {}
        self._position = TaskPosition()
        self._closed = False
        self.was_damaged = False
        try:
            self._open_undamaged_stores()
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(
        cls, directory: Path | None, stores: Sequence[StoreSpec], *, options: StateOptions | None = None
    ) -> TaskState:
        """Opens the stores of a task, and creates missing ones.

        A database that cannot be opened because its files are damaged is removed: the stores are empty then, as on a
        host that never had them, and ``was_damaged`` says so.

        Args:
            directory: the task's directory, ``<state.dir>/<application-id>/<s>_<p>``; ``None`` keeps all stores in
                memory, whatever their backend.
            stores: the stores. Stores that the directory has beside them stay untouched.
            options: memory and durability.

        Raises:
            StateDirectoryLockedError: another live process has the directory. A dead one's lock does not count.
            StateError: the disk fails.
        """
        return cls(directory, stores, options=options or StateOptions())

    @property
    def position(self) -> TaskPosition:
        """The position of the last commit.

        It has no changelog offset for a store that is empty or must be restored from the beginning (a memory store
        after a restart, a new store).
        """
        return self._position

    @property
    def is_damaged(self) -> bool:
        """Whether a read or write found damaged or missing files, or a user's store reported damage.

        :meth:`wipe` and a restoration repair that.
        """
        in_database = self._database is not None and self._database.is_damaged
        return in_database or any(custom.is_damaged for custom in self._custom.values())

    def check_reads(self) -> None:
        """Raises the error of a failed read of the database, even if user code continued after it.

        Raises:
            StateError: there is such a read since the stores were opened.
        """
        failed = None if self._database is None else self._database.failed_read
        if failed is not None:
            raise type(failed)(failed.message, remedy=failed.remedy)

    @property
    def directory(self) -> Path | None:
        """The task's directory; ``None`` if all stores are in memory."""
        return self._directory

    def store(
        self, name: str
    ) -> KeyValueStore | WindowStore | JoinWindowStore | SessionStore | SuppressionBuffer | VersionedKeyValueStore:
        """Returns the store ``name``.

        Raises:
            StateError: the task has no such store, or is closed.
        """
        return self._layered(name)

    def key_value_store(self, name: str) -> KeyValueStore:
        """Returns the key-value store ``name``.

        Raises:
            StateError: the task has no key-value store of that name, or is closed.
        """
        return self._of_kind(name, LayeredKeyValueStore)

    def window_store(self, name: str) -> WindowStore:
        """Returns the window store ``name``.

        Raises:
            StateError: the task has no window store of that name, or is closed.
        """
        if isinstance(self._layered(name), JoinWindowStore):
            raise StateError(f"Store {name} is the buffer of a join.", remedy="use join_store()")
        return self._of_kind(name, LayeredWindowStore)

    def join_store(self, name: str) -> JoinWindowStore:
        """Returns the buffer ``name`` of a stream-stream join.

        Raises:
            StateError: the task has no such buffer, or is closed.
        """
        store = self._layered(name)
        if not isinstance(store, JoinWindowStore):
            raise StateError(f"Store {name} is no buffer of a stream-stream join.", remedy=_OTHER_METHOD)
        return store

    def session_store(self, name: str) -> SessionStore:
        """Returns the session store ``name``.

        Raises:
            StateError: the task has no session store of that name, or is closed.
        """
        return self._of_kind(name, LayeredSessionStore)

    def versioned_store(self, name: str) -> VersionedKeyValueStore:
        """Returns the versioned key-value store ``name``.

        Raises:
            StateError: the task has no versioned store of that name, or is closed.
        """
        return self._of_kind(name, VersionedKeyValueStore)

    def suppression_buffer(self, name: str) -> SuppressionBuffer:
        """Returns the buffer ``name`` of a suppressed table.

        Raises:
            StateError: the task has no such buffer, or is closed.
        """
        return self._of_kind(name, SuppressionBuffer)

    def drain_changelog(self) -> list[ChangelogBatch]:
        """Returns the writes to logged stores since the last drain, in the layout of the changelog topics.

        Of a cached store the last write of each key, of another one every write in order.
        """
        self._check_open()
        batches = [store.drain_changelog() for store in self._stores.values()]
        return [batch for batch in batches if batch is not None]

    def merged_bytes(self) -> int:
        """Returns the bytes of the updates that stores in the record cache have merged since the last commit.

        These are the keys and the last value of each. Takes a walk over the updates.
        """
        self._check_open()
        return sum(
            store.uncommitted_bytes()
            for name, store in self._stores.items()
            if self._specs[name].is_in_record_cache and isinstance(store, LayeredStore)
        )

    def commit(self, position: TaskPosition) -> None:
        """Makes all writes since the last commit durable, with the position that they reach, in one write.

        Raises:
            StateError: the disk fails (nothing was committed; discard this object), or changes were not drained, so
                that no changelog has them.
        """
        self._check_open()
        undrained = [name for name, store in self._stores.items() if store.has_undrained_writes]
        if undrained:
            raise StateError(
                f"Changes of {', '.join(undrained)} were not drained before the commit.",
                remedy="write drain_changelog() to the changelog topics first",
            )
        batch = self._new_batch()
        for name, store in self._stores.items():
            self._stage(batch, name, store)
        if self._database is not None:
            persistent = [name for name, spec in self._specs.items() if self._is_persistent(spec)]
            kept = position.only_changelogs_of(persistent)
            self._database.put_metadata(batch, POSITION_KEY, kept.to_bytes())
        if self._loads is not None:
            self._loads.finish(batch)
        self._write(batch, list(self._stores), position)
        if self._loads is not None:
            self._loads.finished()
        self._position = position
        if self._notes is not None:
            self._notes.note(position)

    def rollback(self) -> None:
        """Discards all writes since the last commit, including those that were not drained."""
        self._check_open()
        for store in self._stores.values():
            store.rollback()

    @property
    def is_loading(self) -> bool:
        """Whether a store is being loaded in bulk, see :meth:`begin_load`."""
        return self._loads is not None and self._loads.is_active

    def begin_load(self, store: str) -> None:
        """Makes :meth:`restore_batch` load an empty store in bulk from now on, in two thirds of the time.

        What it writes is durable with the next :meth:`commit` and not before. If there is none, the store is empty
        when it is opened again. Nothing changes for a store that is not on disk, or not empty.

        Args:
            store: name of a store of which the position has no changelog offset.

        Raises:
            StateError: the position knows the store, or the disk fails.
        """
        if store in self._position.changelogs:
            raise StateError(f"Store {store} has a position; it is not loaded again.", remedy="wipe the state first")
        if self._loads is None or not self._is_persistent(self._specs[store]) or store in self._loads:
            return
        assert self._database is not None
        if self._database.bytes_store(store).is_empty():
            self._loads.begin(store)

    def restore_batch(
        self,
        store: str,
        keys: list[bytes],
        values: list[bytes | None],
        timestamps: Int64Array,
        headers: Sequence[list[tuple[str, bytes | None]] | None] | None = None,
    ) -> int:
        """Applies changelog records, in their order, without overlay and logging. Skips expired windows.

        The records are durable on return (but see :meth:`begin_load`), the position moves by :meth:`commit` only. A
        crash in between is harmless: the position still says where to replay from, and replaying a record twice changes
        nothing. Different stores may be restored by different threads at once.

        Args:
            store: name of the store.
            keys: keys in the changelog's layout.
            values: values; ``None`` is a tombstone.
            timestamps: record timestamps, int64 milliseconds.
            headers: their headers, where :meth:`restores_headers` asks for them.

        Returns:
            how many records were taken.

        Raises:
            StateError: there are uncommitted writes, or the disk fails.
        """
        layered = self._layered(store)
        if layered.has_uncommitted_writes:
            raise StateError(
                f"Store {store} has uncommitted writes and cannot be restored.", remedy="commit or roll back first"
            )
        if not keys:
            return 0
        batch = self._new_batch()
        if isinstance(layered, LayeredWindowStore | JoinWindowStore | LayeredSessionStore | VersionedKeyValueStore):
            taken, metadata = layered.stage_restored(batch, keys, values, timestamps)
            self._stage_metadata(batch, store, metadata)
        elif isinstance(layered, SuppressionBuffer):
            taken = layered.stage_restored(batch, keys, values, headers)
        else:
            taken = layered.stage_restored(batch, keys, values, timestamps)
        self._write(batch, [store], None, logged=self._loads is None or store not in self._loads)
        return taken

    def restores_headers(self, store: str) -> bool:
        """Returns whether the changelog's headers are needed to read its records."""
        return isinstance(self._layered(store), SuppressionBuffer)

    def wipe(self) -> None:
        """Removes all data and the position; the stores are open and empty afterwards. A crash midway is harmless."""
        self._check_open()
        _log.info("state wiped", directory=str(self._directory))
        for custom in self._custom.values():
            custom.wipe()
        self._close_database()
        if self._directory is not None:
            self._remove_database(self._directory)
        if self._notes is not None:
            self._notes.remove()
        self._open_stores()

    def close(self) -> None:
        """Closes the stores and releases the directory; discards uncommitted writes. Idempotent."""
        if self._notes is not None and not self._closed and self._position.written_at_ms:
            self._notes.note(self._position, at_once=True)
        self._closed = True
        self._close_database()
        if self._lock is not None:
            self._lock.release()

    def link_database(self, path: Path) -> bool:
        """Copies the committed database to a new directory, by hard links.

        Returns:
            whether there is a database; stores in memory and custom ones are not copied.

        Raises:
            StateError: the directory exists, or the disk fails.
        """
        self._check_open()
        if self._database is not None:
            self._database.checkpoint(path)
        return self._database is not None

    def begin_compaction(self, *, budget_s: float) -> None:
        """Starts to rewrite the database's files in the background, while the stores are used.

        Args:
            budget_s: seconds after which no further part is begun.
        """
        self._check_open()
        if self._database is not None:
            self._database.begin_compaction(budget_s=budget_s)

    @property
    def compaction(self) -> CompactionProgress | None:
        """The progress of the last compaction since the stores were opened; ``None`` if there was none."""
        return None if self._database is None else self._database.compaction

    def checkpoint(self, directory: Path) -> None:
        """Copies the committed state to a new directory, which does not change any more.

        It gets ``rocksdb``, the database in hard links, and for each logged store outside of it (in memory, or the
        user's own) a file of records that restores it.

        Args:
            directory: on the file system of the state; must not exist.

        Raises:
            StateError: the directory exists, or the disk fails.
        """
        self._check_open()
        write_checkpoint(
            directory,
            self._database,
            {name: self._stores[name] for name, spec in self._specs.items() if not self._is_persistent(spec)},
        )

    def records(self, store: str) -> Iterator[RecordBatch]:
        """Yields the committed content of a store, as changelog records that make an empty store equal to it.

        Raises:
            StateError: the task has no such store, or is closed.
        """
        layered = self._layered(store)
        return in_batches(layered.records(), layered.record_headers)

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Returns the number of committed entries and bytes of each store, both approximate."""
        self._check_open()
        return {name: store.size() for name, store in self._stores.items()}

    def _open_undamaged_stores(self) -> None:
        try:
            self._open_stores()
        except StateCorruptedError as error:
            _log.warning("damaged state is removed", directory=str(self._directory), reason=error.message)
            self.was_damaged = True
            self.wipe()

    def _open_stores(self) -> None:
        self._position = TaskPosition()
        persistent = [name for name, spec in self._specs.items() if self._is_persistent(spec)]
        if self._directory is not None and persistent:
            for leftover in self._directory.glob(f"{DATABASE_DIRECTORY}.removed*"):
                shutil.rmtree(leftover)
            self._database = RocksDatabase(
                self._directory / DATABASE_DIRECTORY,
                {name: self._specs[name].rocksdb for name in persistent},
                options=self._options.database,
            )
            for name in interrupted_loads(self._database, persistent):
                discard_interrupted_load(self._database, name, [SEGMENTS_KEY + name.encode()])
            self._loads = BulkLoads(self._database)
            data = self._database.metadata(POSITION_KEY)
            if data is not None:
                self._position = TaskPosition.from_bytes(data).only_changelogs_of(persistent)
        for name, spec in self._specs.items():
            if spec.custom is not None:
                self._custom[name] = open_custom_store(name, spec.custom, self._directory)
        self._position = with_positions_of(self._position, self._custom, has_database=self._database is not None)
        cache_bytes = self._options.read_cache_bytes // max(len(persistent) + len(self._custom), 1)
        self._stores = {name: self._open_store(spec, cache_bytes) for name, spec in self._specs.items()}

    def _open_store(self, spec: StoreSpec, cache_bytes: int) -> _Store:
        changelog = Changelog(spec.name, cached=spec.cached) if spec.logged else None
        committed: BytesStore
        metadata = None
        if spec.custom is not None:
            committed = self._custom[spec.name]
            metadata = self._custom[spec.name].metadata
        elif self._is_persistent(spec) and self._database is not None:
            committed = self._database.bytes_store(spec.name)
            metadata = self._database.metadata(SEGMENTS_KEY + spec.name.encode())
        else:
            committed, cache_bytes = MemoryBytesStore(), 0
        if spec.capacity is not None:
            return LruKeyValueStore(spec.name, capacity=spec.capacity, changelog=changelog)
        if spec.kind is StoreKind.BUFFER:
            return SuppressionBuffer(spec.name, committed, logged=spec.logged)
        if spec.kind is StoreKind.KEY_VALUE:
            return LayeredKeyValueStore(spec.name, committed, changelog=changelog, read_cache_bytes=cache_bytes)
        if spec.kind is StoreKind.VERSIONED:
            segments = HistorySegments(
                retention_ms=spec.history_retention_ms, segment_interval_ms=spec.segment_interval_ms
            )
            return VersionedKeyValueStore(
                spec.name,
                committed,
                changelog=changelog,
                segments=segments.restored(metadata),
                read_cache_bytes=cache_bytes,
            )
        return self._open_windows(spec, committed, changelog, metadata, cache_bytes)

    def _open_windows(
        self,
        spec: StoreSpec,
        committed: BytesStore,
        changelog: Changelog | None,
        metadata: bytes | None,
        cache_bytes: int,
    ) -> _Store:
        exact = spec.backend is StoreBackend.MEMORY and spec.custom is None
        if spec.retains_duplicates:
            return JoinWindowStore(
                spec.name,
                committed,
                changelog=changelog,
                segments=Segments(retention_ms=spec.retention_ms, exact=exact),
                metadata=metadata,
            )
        if spec.kind is StoreKind.WINDOW and spec.retention_ms <= 0:
            raise StateError(f"Window store {spec.name} has no retention.", remedy="set retention_ms of its spec")
        if spec.kind is StoreKind.SESSION:
            return LayeredSessionStore(
                spec.name,
                committed,
                changelog=changelog,
                cached=spec.cached,
                segments=Segments(retention_ms=spec.retention_ms, exact=exact).restored(metadata),
                # A memory store sorts its keys for each scan, so it keeps sessions at hand as well.
                read_cache_bytes=cache_bytes or self._options.read_cache_bytes,
            )
        return LayeredWindowStore(
            spec.name,
            committed,
            changelog=changelog,
            segments=Segments(retention_ms=spec.retention_ms, exact=exact).restored(metadata),
            read_cache_bytes=cache_bytes,
        )

    def _is_persistent(self, spec: StoreSpec) -> bool:
        return self._directory is not None and spec.is_on_disk

    def _layered(self, name: str) -> _Store:
        self._check_open()
        try:
            return self._stores[name]
        except KeyError as error:
            raise StateError(
                f"The task has no store {name}; it has {', '.join(sorted(self._stores)) or 'none'}.",
                remedy="connect the store to the processor in the topology",
            ) from error

    def _of_kind(self, name: str, kind: type[StoreT]) -> StoreT:
        store = self._layered(name)
        if not isinstance(store, kind):
            raise StateError(f"Store {name} is a {self._specs[name].kind} store.", remedy=_OTHER_METHOD)
        return store

    def _new_batch(self) -> Any:
        return self._database.new_batch() if self._database is not None else None

    def _stage(self, batch: Any, name: str, store: _Store) -> None:
        if isinstance(store, LayeredWindowStore | JoinWindowStore | LayeredSessionStore | VersionedKeyValueStore):
            self._stage_metadata(batch, name, store.stage(batch))
        else:
            store.stage(batch)

    def _stage_metadata(self, batch: Any, name: str, metadata: bytes | None) -> None:
        if metadata is not None and name in self._custom:
            self._custom[name].metadata = metadata
        elif metadata is not None and self._database is not None and self._is_persistent(self._specs[name]):
            self._database.put_metadata(batch, SEGMENTS_KEY + name.encode(), metadata)

    def _write(self, batch: Any, names: Collection[str], position: TaskPosition | None, *, logged: bool = True) -> None:
        stores = [self._stores[name] for name in names]
        try:
            for name in names:
                if name in self._custom:
                    kept = None if position is None else position.only_changelogs_of([name])
                    self._custom[name].write(kept)
            if self._database is not None:
                write = self._database.write if logged else self._database.write_without_log
                write(batch)
        except BaseException:
            for store in stores:
                store.commit_failed()
            raise
        for store in stores:
            store.committed()

    @staticmethod
    def _remove_database(directory: Path) -> None:
        database = directory / DATABASE_DIRECTORY
        if database.exists():
            # Renamed first: a crash in the middle of the removal leaves no half database behind.
            removed = directory / f"{DATABASE_DIRECTORY}.removed"
            database.rename(removed)
            shutil.rmtree(removed)

    def _close_database(self) -> None:
        self._stores = {}
        self._loads = None
        custom, self._custom = self._custom, {}
        for store in custom.values():
            store.close()
        if self._database is not None:
            self._database.close()
            self._database = None

    def _check_open(self) -> None:
        if self._closed:
            raise StateError(f"The state in {self._directory} is closed.", remedy="open it again")
