"""RocksDB: the database of a task, with a column family for each store, and the bytes store on a column family."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakSet

import structlog
from rocksdict import (
    BlockBasedOptions,
    Cache,
    Checkpoint,
    ColumnFamily,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
    WriteBufferManager,
    WriteOptions,
)

from millrace.config import StreamsConfig
from millrace.errors import StateCorruptedError, StateError, StateWriteError
from millrace.state.file_compaction import CompactionProgress, FileCompaction
from millrace.state.layout import Packed
from millrace.state.scans import DatabaseScan
from millrace.topology.rocksdb_options import RocksDBOptions

_log = structlog.get_logger(__name__)

MEBIBYTE = 1 << 20
METADATA_FAMILY = "metadata"
STORE_FAMILY_PREFIX = "store."
_SIGNS_OF_DAMAGE = ("Corruption", "No such file or directory")
"""In RocksDB's messages: bytes that do not fit their checksum, or files that another process removed."""


_TUNED = tuple(
    option.name for option in fields(RocksDBOptions) if f"rocksdb_{option.name}" in StreamsConfig.model_fields
)
"""Options of stores that are settings of an application too."""


def _default(setting: str) -> Any:
    """Returns the default of a ``rocksdb.*`` setting, which is defined with the setting only."""
    return StreamsConfig.model_fields[f"rocksdb_{setting}"].default


DEFAULTS = RocksDBOptions(**{option: _default(option) for option in _TUNED})
"""Tuning of stores of which neither the topology nor the configuration says anything."""


@dataclass(frozen=True, kw_only=True)
class DatabaseOptions:
    """The memory and durability of the databases of a process.

    Args:
        memory_bytes: one limit for all databases of the process: blocks of files, their indexes and filters, and write
            buffers share one cache of this size. A write buffer in use or a block that is being read is never pushed
            out, so the cache may exceed it for a moment.
        write_buffers_bytes: the part of it that write buffers may take before they are flushed.
        max_open_files: files one database keeps open.
        sync: whether a commit waits for the disk. Without it a commit survives the death of the process, and after
            a power loss the database is an older, whole state, which the changelogs bring forward.
        stores: tuning of the stores that have none of their own.
    """

    memory_bytes: int = _default("memory_bytes")
    write_buffers_bytes: int = _default("write_buffers_bytes")
    max_open_files: int = _default("max_open_files")
    sync: bool = False
    stores: RocksDBOptions = field(default_factory=RocksDBOptions)

    @classmethod
    def from_config(cls, config: StreamsConfig) -> DatabaseOptions:
        """Returns the options that the ``rocksdb.*`` settings define."""
        return cls(
            memory_bytes=config.rocksdb_memory_bytes,
            write_buffers_bytes=config.rocksdb_write_buffers_bytes,
            max_open_files=config.rocksdb_max_open_files,
            stores=RocksDBOptions(**{option: getattr(config, f"rocksdb_{option}") for option in _TUNED}),
        )


@dataclass(frozen=True)
class SharedMemory:
    """The cache of a process, and the manager that keeps write buffers within it."""

    cache: Cache
    write_buffers: WriteBufferManager

    @property
    def usage(self) -> int:
        """Bytes of blocks and write buffers together."""
        return int(self.cache.get_usage())


@lru_cache(maxsize=8)
def shared_memory(memory_bytes: int, write_buffers_bytes: int) -> SharedMemory:
    """Returns the memory that all databases of the process with these limits share."""
    cache = Cache(memory_bytes)
    manager = WriteBufferManager.new_write_buffer_manager_with_cache(write_buffers_bytes, False, cache)
    return SharedMemory(cache, manager)


@lru_cache(maxsize=64)
def _own_cache(store: str, capacity: int) -> Cache:  # noqa: ARG001 - the store makes it its own
    """Returns the cache of one store, over all tasks of the process."""
    return Cache(capacity)


def _tuning(options: DatabaseOptions, own: RocksDBOptions | None) -> RocksDBOptions:
    return (own or RocksDBOptions()).over(options.stores).over(DEFAULTS)


def _column_family_options(options: DatabaseOptions, store: str = "", own: RocksDBOptions | None = None) -> Options:
    tuning = _tuning(options, own)
    table = BlockBasedOptions()
    if tuning.block_cache_bytes is None:
        table.set_block_cache(shared_memory(options.memory_bytes, options.write_buffers_bytes).cache)
    else:
        table.set_block_cache(_own_cache(store, tuning.block_cache_bytes))
    table.set_block_size(tuning.block_bytes)
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    if tuning.bloom_filter_bits_per_key:
        table.set_bloom_filter(tuning.bloom_filter_bits_per_key, False)
    table.set_format_version(5)
    family = Options(raw_mode=True)
    family.create_if_missing(True)
    family.create_missing_column_families(True)
    family.set_block_based_table_factory(table)
    family.set_compression_type(getattr(DBCompressionType, str(tuning.compression))())
    family.set_write_buffer_size(tuning.write_buffer_bytes)
    family.set_max_write_buffer_number(tuning.max_write_buffers)
    family.set_level_zero_file_num_compaction_trigger(tuning.level0_file_num_compaction_trigger)
    family.set_level_zero_slowdown_writes_trigger(tuning.level0_slowdown_writes_trigger)
    family.set_level_zero_stop_writes_trigger(tuning.level0_stop_writes_trigger)
    family.set_level_compaction_dynamic_level_bytes(True)
    return family


def _database_options(options: DatabaseOptions) -> Options:
    database = _column_family_options(options)
    memory = shared_memory(options.memory_bytes, options.write_buffers_bytes)
    database.set_write_buffer_manager(memory.write_buffers)
    database.set_max_open_files(options.max_open_files)
    # One writer per database: the concurrent memtable only costs.
    database.set_allow_concurrent_memtable_write(False)
    database.set_max_background_jobs(2)
    database.set_keep_log_file_num(2)
    database.set_max_log_file_size(4 * MEBIBYTE)
    database.set_stats_dump_period_sec(0)
    database.set_stats_persist_period_sec(0)
    database.set_manifest_preallocation_size(64 * 1024)
    return database


class RocksDatabase:
    """An open database. The caller holds the lock of the task's directory.

    Args:
        path: directory of the database; made if missing.
        stores: the stores that need a column family, with the tuning of their own; families of other stores are kept
            as they are.
        options: memory and durability.

    Raises:
        StateCorruptedError: its files are damaged.
        StateError: the database cannot be opened.
    """

    def __init__(self, path: Path, stores: Mapping[str, RocksDBOptions | None], *, options: DatabaseOptions) -> None:
        self.path = path
        self._options = options
        self._stores = dict(stores)
        self.is_damaged = False
        self.failed_read: StateError | None = None
        """What a read met first that the disk or the files are to blame for."""
        self._scans: WeakSet[DatabaseScan] = WeakSet()
        self._compaction: FileCompaction | None = None
        database = _database_options(options)
        try:
            existing = Rdict.list_cf(str(path), database) if (path / "CURRENT").exists() else []
            names = {METADATA_FAMILY, *(STORE_FAMILY_PREFIX + name for name in stores), *existing} - {"default"}
            families = {
                name: _column_family_options(options, store, stores.get(store))
                for name in sorted(names)
                for store in (name.removeprefix(STORE_FAMILY_PREFIX),)
            }
            self._database = Rdict(str(path), database, column_families=families)
        except Exception as error:  # rocksdict raises plain Exception
            raise self._damaged(error) or StateError(
                f"The state database {path} cannot be opened: {error}", remedy="check disk and permissions"
            ) from error
        self._families: dict[str, Rdict] = {name: self._database.get_column_family(name) for name in names}
        self._handles: dict[str, ColumnFamily] = {name: self._database.get_column_family_handle(name) for name in names}
        self._write_options = WriteOptions()
        self._write_options.sync = options.sync
        self._without_log = WriteOptions()
        self._without_log.disable_wal = True

    def bytes_store(self, name: str) -> RocksBytesStore:
        """Returns the bytes store of the store ``name``."""
        return RocksBytesStore(self, STORE_FAMILY_PREFIX + name)

    def family(self, name: str) -> Rdict:
        """Returns the open column family ``name``."""
        return self._families[name]

    def store_family(self, store: str) -> Rdict:
        """Returns the open column family of a store."""
        return self._families[STORE_FAMILY_PREFIX + store]

    def clear_store(self, store: str) -> None:
        """Removes everything in a store at once, by giving it a new column family."""
        name = STORE_FAMILY_PREFIX + store
        del self._handles[name]
        self._families.pop(name).close()
        self._database.drop_column_family(name)
        self._families[name] = self._database.create_column_family(
            name, _column_family_options(self._options, store, self._stores.get(store))
        )
        self._handles[name] = self._database.get_column_family_handle(name)

    def level0_files(self, store: str) -> int:
        """Returns the number of a store's files at level 0, which are not compacted yet."""
        return int(self.store_family(store).property_value("rocksdb.num-files-at-level0") or 0)

    def level0_triggers(self, store: str) -> tuple[int, int]:
        """Returns the numbers of such files at which writes are slowed down and stopped."""
        tuning = _tuning(self._options, self._stores.get(store))
        assert tuning.level0_slowdown_writes_trigger is not None
        assert tuning.level0_stop_writes_trigger is not None
        return tuning.level0_slowdown_writes_trigger, tuning.level0_stop_writes_trigger

    def flush(self, stores: Iterable[str]) -> None:
        """Writes stores and the metadata to files, including data that is not in the write-ahead log.

        Raises:
            StateCorruptedError: files are damaged or gone.
            StateWriteError: the disk is full or fails.
        """
        try:
            for name in (*(STORE_FAMILY_PREFIX + store for store in stores), METADATA_FAMILY):
                self._families[name].flush()
        except Exception as error:  # rocksdict raises plain Exception
            raise self._refused(error) from error

    def metadata(self, key: bytes) -> bytes | None:
        """Returns a metadata value; ``None`` if there is none."""
        with self.reading():
            value: bytes | None = self._families[METADATA_FAMILY].get(key)
        return value

    def new_batch(self) -> WriteBatch:
        """Returns an empty batch for all column families."""
        return WriteBatch(raw_mode=True)

    def put_metadata(self, batch: WriteBatch, key: bytes, value: bytes) -> None:
        """Adds a metadata value to a batch."""
        batch.put(key, value, self._handles[METADATA_FAMILY])

    def delete_metadata(self, batch: WriteBatch, key: bytes) -> None:
        """Adds the removal of a metadata value to a batch."""
        batch.delete(key, self._handles[METADATA_FAMILY])

    def put(self, batch: WriteBatch, family: str, keys: Sequence[bytes], values: Sequence[Packed]) -> None:
        """Adds writes of one column family to a batch; ``None`` deletes."""
        batch.set_default_column_family(self._handles[family])
        if all(values):
            deque(map(batch.put, keys, values), maxlen=0)
        else:
            for key, value in zip(keys, values, strict=True):
                if value is None:
                    batch.delete(key)
                else:
                    batch.put(key, value)
        batch.set_default_column_family(None)

    def delete_range(self, batch: WriteBatch, family: str, begin: bytes, end: bytes) -> None:
        """Adds the deletion of ``[begin, end)`` in one column family to a batch."""
        batch.delete_range(begin, end, self._handles[family])

    def write(self, batch: WriteBatch) -> None:
        """Writes a batch: all of it or nothing, also when the process dies.

        Raises:
            StateCorruptedError: files are damaged or gone, which is why RocksDB takes no writes any more.
            StateWriteError: the disk is full or fails.
        """
        self._write(batch, self._write_options)

    def write_without_log(self, batch: WriteBatch) -> None:
        """Writes a batch without the write-ahead log: the death of the process may lose any part that is not flushed.

        Raises:
            StateWriteError: the disk is full or fails.
        """
        self._write(batch, self._without_log)

    def _write(self, batch: WriteBatch, options: WriteOptions) -> None:
        try:
            self._database.write(batch, options)
        except Exception as error:  # rocksdict raises plain Exception
            raise self._refused(error) from error

    def checkpoint(self, path: Path) -> None:
        """Copies the database as it is now to a new directory, by hard links where the file system allows.

        Raises:
            StateError: the directory exists, or the disk fails.
        """
        try:
            Checkpoint(self._database).create_checkpoint(str(path))
        except Exception as error:  # rocksdict raises plain Exception
            raise StateError(
                f"The state database {self.path} cannot be copied to {path}: {error}",
                remedy="free space on the disk, and see that the directory does not exist",
            ) from error

    def begin_compaction(self, *, budget_s: float) -> None:
        """Starts to rewrite the files of all stores in a thread, while the database is used; see :attr:`compaction`.

        A compaction that runs already goes on as it is.

        Args:
            budget_s: seconds after which no further part is begun.
        """
        if self._compaction is None or not self._compaction.is_running:
            stores = {
                name.removeprefix(STORE_FAMILY_PREFIX): family
                for name, family in self._families.items()
                if name.startswith(STORE_FAMILY_PREFIX)
            }
            self._compaction = FileCompaction(self._database, stores, budget_s=budget_s)

    @property
    def compaction(self) -> CompactionProgress | None:
        """The progress of the last compaction of this open database; ``None`` if there was none."""
        return None if self._compaction is None else self._compaction.progress

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Converts errors of RocksDB's reads inside the body to errors of the state.

        Raises:
            StateCorruptedError: the files are damaged or gone.
            StateError: the disk fails.
        """
        try:
            yield
        except Exception as error:  # rocksdict raises plain Exception
            raise self.unreadable(error) from error

    def unreadable(self, error: Exception) -> StateError:
        """Returns the error for a read that failed."""
        if not self._families:
            return StateError(f"The state database {self.path} is closed.", remedy="open the task again")
        met = self._damaged(error) or StateError(
            f"The state database {self.path} cannot be read: {error}", remedy="check the disk"
        )
        # Without its traceback, whose frames may hold iterators.
        self.failed_read = self.failed_read or type(met)(met.message, remedy=met.remedy)
        return met

    def scan(self, family: str, from_key: bytes, before: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Yields the entries of a range of one column family as they were when the scan began."""
        with self.reading():
            scan = DatabaseScan(
                family.removeprefix(STORE_FAMILY_PREFIX), self._families[family].items(from_key=from_key)
            )
        self._scans.add(scan)
        return self._checked(scan, family, from_key, before)

    def is_empty(self, family: str) -> bool:
        """Returns whether a column family has no entry."""
        return not self._has_entry(family, b"")

    def _checked(
        self, scan: DatabaseScan, family: str, from_key: bytes, before: bytes | None
    ) -> Iterator[tuple[bytes, bytes]]:
        last = from_key
        while True:
            # Not held here: what RocksDB has is given back when the database closes, whoever holds this generator.
            entry = next(scan.items, None)
            if entry is None:
                break
            if before is not None and entry[0] >= before:
                return
            yield entry
            last = entry[0]
        self._has_entry(family, last, after=True)

    def _has_entry(self, family: str, key: bytes, *, after: bool = False) -> bool:
        with self.reading():
            return has_entry(self._families[family], key, after=after)

    def _refused(self, error: Exception) -> StateError:
        return self._damaged(error) or StateWriteError(
            f"The state database {self.path} refused a write: {error}",
            remedy="free space on the disk or replace it, and start again: the stores are brought forward from "
            "their changelogs",
        )

    def _damaged(self, error: Exception) -> StateCorruptedError | None:
        """Returns the error for damaged files; ``None`` if something else is wrong."""
        if not any(sign in str(error) for sign in _SIGNS_OF_DAMAGE):
            return None
        self.is_damaged = True
        return StateCorruptedError(
            f"The state database {self.path} is damaged: {error}",
            remedy="none needed now: its stores are emptied and restored from the changelogs; check the disk, though",
        )

    def close(self) -> None:
        """Closes the database and its column families. Idempotent.

        Scans that have not ended are ended: their next entry is a ``StateError``. RocksDB would keep its files and its
        lock for them.

        A disk that refuses the last writes of this is only logged: what is not in the files is in the changelogs.
        """
        if self._compaction is not None:
            self._compaction.end()
            self._compaction = None
        # RocksDB's own lock is given back only when the last handle and the last scan are gone.
        for scan in list(self._scans):
            scan.end()
        self._handles.clear()
        families = list(self._families.values())
        self._families.clear()
        for each in (*families, self._database):
            try:
                each.close()
            except Exception as error:  # rocksdict raises plain Exception
                _log.warning("state database not closed in order", path=str(self.path), problem=str(error))


class RocksBytesStore:
    """A :class:`~millrace.state.bytes_store.BytesStore` on a column family."""

    def __init__(self, database: RocksDatabase, family: str) -> None:
        self._database = database
        self._name = family

    def get(self, key: bytes) -> Packed:
        """Returns the value of ``key``."""
        try:
            value: Packed = self._database.family(self._name).get(key)
        except Exception as error:  # rocksdict raises plain Exception; a context manager would cost a third of the read
            raise self._database.unreadable(error) from error
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[Packed]:
        """Returns the values of ``keys``, in their order."""
        # One call per key through map() takes two thirds of the time of RocksDB's multi-get through rocksdict 0.3.29.
        with self._database.reading():
            return list(map(self._database.family(self._name).get, keys))

    def scan(self, from_key: bytes, before: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Yields the entries of a range as they were when the scan began."""
        return self._database.scan(self._name, from_key, before)

    def stage(self, batch: Any, keys: Sequence[bytes], values: Sequence[Packed]) -> None:
        """Adds writes to the batch."""
        self._database.put(batch, self._name, keys, values)

    def stage_delete_range(self, batch: Any, begin: bytes, end: bytes) -> None:
        """Adds a range deletion to the batch."""
        self._database.delete_range(batch, self._name, begin, end)

    def apply_staged(self) -> None:
        """Does nothing: the batch was written."""

    def discard_staged(self) -> None:
        """Does nothing: the batch is discarded."""

    def is_empty(self) -> bool:
        """Returns whether there is no committed entry."""
        return self._database.is_empty(self._name)

    def size(self) -> tuple[int, int]:
        """Returns RocksDB's own estimates: the number of keys, and the bytes in files and write buffers."""
        return (
            self._number("rocksdb.estimate-num-keys"),
            self._number("rocksdb.total-sst-files-size") + self._number("rocksdb.cur-size-all-mem-tables"),
        )

    def _number(self, name: str) -> int:
        return int(self._database.family(self._name).property_int_value(name) or 0)


def entries(family: Rdict, from_key: bytes = b"", before: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
    """Yields the entries of a range of a column family, by key.

    Raises:
        Exception: the files are damaged or gone; the entries before that have come. rocksdict raises nothing more
            specific.
    """
    last = from_key
    for key, value in family.items(from_key=from_key):
        if before is not None and key >= before:
            return
        yield key, value
        last = key
    has_entry(family, last, after=True)


def has_entry(family: Rdict, key: bytes, *, after: bool = False) -> bool:
    """Returns whether a column family has an entry at a key or after it (with ``after`` only after it).

    At a damaged block an iterator of rocksdict ends as if nothing came after it: whoever has come to the end of one
    asks this about the last key.

    Raises:
        Exception: the files cannot be read there; rocksdict raises nothing more specific.
    """
    iterator = family.iter()
    try:
        iterator.seek(key)
        if after and iterator.valid():
            iterator.next()
        iterator.status()
        return bool(iterator.valid())
    finally:
        # The error's traceback would keep it, and with it RocksDB's lock.
        del iterator
