"""A task's database as another process follows it: a RocksDB secondary instance, which neither locks nor writes.

A secondary reads the files of the primary: its manifest, its tables and its log. :meth:`Secondary.catch_up` brings it
to the last commit; between two of them it stays at one commit, which makes answers consistent. All tables stay open, so
that what the primary deletes can be read until then.

The manifest is read first and the log afterwards. What the primary flushes in between, such as a store that it has
restored without the log, would be missing although the log already has the commit that stands for it: so the manifest
has to be the same before and after.

A new secondary must be opened where following would give answers that were never true: where the database has been
replaced (wiped for a restoration, installed from a savepoint), where it has another set of column families, and where
the primary has begun another log. It has flushed then, and what a secondary has read of the old log hides what was
flushed after that until the same store is written again (seen with rocksdict 0.3.29).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from rocksdict import AccessType, BlockBasedOptions, Cache, Options, Rdict

from millrace.errors import StateError
from millrace.queries.requests import View
from millrace.state import TaskPosition
from millrace.state.layout import Packed
from millrace.state.rocksdb import MEBIBYTE, METADATA_FAMILY, STORE_FAMILY_PREFIX, entries
from millrace.state.task_state import POSITION_KEY, SEGMENTS_KEY

_CACHE_BYTES = 64 * MEBIBYTE
_MOST_ATTEMPTS = 20
"""A flush or a compaction writes the manifest, seconds apart; catching up takes milliseconds."""
_Identity = tuple[int, int, int]


class ReplacedError(StateError):
    """The database at the path is another one than was opened, or has other column families."""


class Secondary:
    """A follower of the database in ``path``.

    Args:
        path: the directory of the primary.
        scratch: a directory of its own for RocksDB's own log.

    ``view`` is the commit that it is at, the same object until the next :meth:`catch_up`; ``None`` where the database
    stands for no commit yet: it is being restored.

    Raises:
        StateError: there is no database, or it cannot be read at this moment.
    """

    def __init__(self, path: Path, scratch: Path) -> None:
        self._path = path
        self._directory: int | None = None
        self._seen = _Files({}, {})
        self._families: dict[str, Rdict] = {}
        self._database: Rdict | None = None
        try:
            # An open directory keeps its number from being given to the one that replaces it.
            self._directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            self._identity = _identity(path)
            for _ in range(_MOST_ATTEMPTS):
                self._open(scratch)
                if self._files().has_same_files(self._seen):
                    break
                self._close_database()
            else:
                raise _too_fast(path)
            self._check_identity()
        except Exception as error:  # rocksdict raises plain Exception
            self.close()
            raise StateError(
                f"The state database {path} cannot be followed: {error}", remedy="none needed: it is tried again"
            ) from error
        self._look(int(time.time() * 1000))

    def catch_up(self) -> None:
        """Brings the database to the last commit; costs next to nothing if nothing was written.

        Raises:
            ReplacedError: open another one.
            StateError: it cannot follow; open another one.
        """
        looked_at_ms = int(time.time() * 1000)
        try:
            files = self._files()
            if files != self._seen:
                self._follow(files)
            self._check_identity()
        except StateError:
            raise
        except Exception as error:  # rocksdict raises plain Exception
            raise StateError(f"The state database {self._path} cannot be followed: {error}") from error
        self._look(looked_at_ms)

    def has_store(self, store: str) -> bool:
        """Returns whether the database has a store with this name."""
        return STORE_FAMILY_PREFIX + store in self._families

    def bytes_store(self, store: str, after: bytes | None = None) -> SecondaryBytesStore:
        """Returns the committed bytes of a store that the database has.

        Args:
            store: name of the store.
            after: the key after which scans begin at the earliest.
        """
        family = self._families[STORE_FAMILY_PREFIX + store]
        return SecondaryBytesStore(family) if after is None else ResumedBytesStore(family, after)

    def segments(self, store: str) -> bytes | None:
        """Returns the segment metadata of a windowed store."""
        found: bytes | None = self._families[METADATA_FAMILY].get(SEGMENTS_KEY + store.encode())
        return found

    def close(self) -> None:
        """Closes the database and its files. Idempotent."""
        self._close_database()
        if self._directory is not None:
            os.close(self._directory)
            self._directory = None

    def _open(self, scratch: Path) -> None:
        self._seen = self._files()
        self._names = _families(self._path)
        self._database = Rdict(
            str(self._path),
            _options(),
            column_families={name: _options() for name in self._names},
            access_type=AccessType.secondary(str(scratch)),
        )
        self._families = {name: self._database.get_column_family(name) for name in self._names}

    def _follow(self, files: _Files) -> None:
        assert self._database is not None
        for _ in range(_MOST_ATTEMPTS):
            if files.logs.keys() != self._seen.logs.keys():
                raise ReplacedError(f"The state database {self._path} has begun another log.")
            self._database.try_catch_up_with_primary()
            if files.manifests != self._seen.manifests and _families(self._path) != self._names:
                raise ReplacedError(f"The state database {self._path} has other column families now.")
            self._seen, files = files, self._files()
            if files.has_same_files(self._seen):
                return
        raise _too_fast(self._path)

    def _close_database(self) -> None:
        families, self._families = list(self._families.values()), {}
        for family in families:
            family.close()
        if self._database is not None:
            self._database.close()
            self._database = None

    def _look(self, looked_at_ms: int) -> None:
        family = self._families.get(METADATA_FAMILY)
        data = family.get(POSITION_KEY) if family is not None else None
        self.view: View | None = None
        if data is not None:
            position = TaskPosition.from_bytes(data)
            self.view = View(position, looked_at_ms, position.standby)

    def _check_identity(self) -> None:
        try:
            same = _identity(self._path) == self._identity
        except FileNotFoundError:
            same = False
        if not same:
            raise ReplacedError(f"The state database {self._path} was replaced.")

    def _files(self) -> _Files:
        manifests, logs = {}, {}
        with os.scandir(self._path) as entries:
            for entry in entries:
                if entry.name.endswith(".log"):
                    logs[entry.name] = entry.stat().st_size
                elif entry.name.startswith(("MANIFEST", "CURRENT")):
                    manifests[entry.name] = entry.stat().st_size
        return _Files(manifests, logs)


@dataclass(frozen=True)
class _Files:
    """The sizes of a database's files by their names, which change with every commit."""

    manifests: Mapping[str, int]
    logs: Mapping[str, int]

    def has_same_files(self, other: _Files) -> bool:
        """Returns whether nothing was flushed or compacted between the two; logs may have grown."""
        return self.manifests == other.manifests and self.logs.keys() == other.logs.keys()


class SecondaryBytesStore:
    """A :class:`~millrace.state.bytes_store.BytesStore` that only reads.

    Args:
        family: the column family.
    """

    def __init__(self, family: Rdict) -> None:
        self._family = family

    def get(self, key: bytes) -> Packed:
        """Returns the value of ``key``."""
        value: Packed = self._family.get(key)
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[Packed]:
        """Returns the values of ``keys``, in their order."""
        return list(map(self._family.get, keys))

    def scan(self, from_key: bytes, before: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Returns the entries of a range, in key order; see :func:`millrace.state.rocksdb.entries`."""
        return entries(self._family, from_key, before)

    def is_empty(self) -> bool:
        """Returns ``False``, as the store may be written at any time, so that no reader may rely on its being empty."""
        return False

    def size(self) -> tuple[int, int]:
        """Returns RocksDB's own estimate of the number of keys, and the bytes in files."""
        return (
            int(self._family.property_int_value("rocksdb.estimate-num-keys") or 0),
            int(self._family.property_int_value("rocksdb.total-sst-files-size") or 0),
        )

    def stage(self, batch: Any, keys: Sequence[bytes], values: Sequence[Packed]) -> NoReturn:  # noqa: ARG002
        """Refuses the write: the database is read-only."""
        raise _read_only()

    def stage_delete_range(self, batch: Any, begin: bytes, end: bytes) -> NoReturn:  # noqa: ARG002
        """Refuses the write: the database is read-only."""
        raise _read_only()

    def apply_staged(self) -> NoReturn:
        """Refuses the write: the database is read-only."""
        raise _read_only()

    def discard_staged(self) -> NoReturn:
        """Refuses the write: the database is read-only."""
        raise _read_only()


class ResumedBytesStore(SecondaryBytesStore):
    """A read-only bytes store in which scans begin after a given key.

    Args:
        family: the column family.
        after: the key.
    """

    def __init__(self, family: Rdict, after: bytes) -> None:
        super().__init__(family)
        self._first = after + b"\0"

    def scan(self, from_key: bytes, before: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Returns the remaining entries of a range."""
        first = max(from_key, self._first)
        return iter(()) if before is not None and first >= before else super().scan(first, before)


def _read_only() -> StateError:
    return StateError("A store that is queried can only be read.")


def _identity(path: Path) -> _Identity:
    directory, identity = path.stat(), (path / "IDENTITY").stat()
    return directory.st_dev, directory.st_ino, identity.st_ino


def _too_fast(path: Path) -> StateError:
    return StateError(f"The files of the state database {path} change faster than they can be followed.")


def _families(path: Path) -> list[str]:
    return sorted(set(Rdict.list_cf(str(path), Options(raw_mode=True))) - {"default"})


@lru_cache(maxsize=1)
def _cache() -> Cache:
    return Cache(_CACHE_BYTES)


def _options() -> Options:
    table = BlockBasedOptions()
    table.set_block_cache(_cache())
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(table)
    options.set_max_open_files(-1)
    options.set_keep_log_file_num(1)
    options.set_max_log_file_size(MEBIBYTE)
    options.set_stats_dump_period_sec(0)
    return options
