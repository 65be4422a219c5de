"""A store of a user's own, in SQLite: what ``millrace.topology.custom_stores.StateStore`` asks for and no more."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path


class SqliteStore:
    """Keys and values in a table; the checkpoint is in the same transaction as the entries."""

    persistent = True

    def __init__(self, name: str) -> None:
        self.name = name
        self._path: Path | None = None

    def init(self, directory: Path | None) -> None:
        """Opens the file, made if missing."""
        if directory is not None:
            self._path = directory / f"{self.name}.sqlite"
        # One thread at a time uses the store, but not always the same one.
        place = ":memory:" if self._path is None else self._path
        self._connection = sqlite3.connect(place, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        # A process may die, the machine not: then nothing is lost without waiting for the disk.
        self._connection.execute("PRAGMA synchronous = OFF")
        self._connection.execute("CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
        self._connection.execute("CREATE TABLE IF NOT EXISTS checkpoint (only INTEGER PRIMARY KEY, data BLOB)")

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""
        row = self._connection.execute("SELECT value FROM entries WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def range(self, from_key: bytes, before: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Entries by the bytes of their keys."""
        if before is None:
            sql, bounds = "SELECT key, value FROM entries WHERE key >= ? ORDER BY key", (from_key,)
            yield from self._connection.execute(sql, bounds).fetchall()
        else:
            sql = "SELECT key, value FROM entries WHERE key >= ? AND key < ? ORDER BY key"
            yield from self._connection.execute(sql, (from_key, before)).fetchall()

    def write(self, entries: Sequence[tuple[bytes, bytes | None]], checkpoint: bytes) -> None:
        """Entries and checkpoint in one transaction."""
        self._connection.execute("BEGIN")
        try:
            for key, value in entries:
                if value is None:
                    self._connection.execute("DELETE FROM entries WHERE key = ?", (key,))
                else:
                    self._connection.execute("INSERT OR REPLACE INTO entries VALUES (?, ?)", (key, value))
            self._connection.execute("INSERT OR REPLACE INTO checkpoint VALUES (1, ?)", (checkpoint,))
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise

    def checkpoint(self) -> bytes | None:
        """That of the last write."""
        row = self._connection.execute("SELECT data FROM checkpoint").fetchone()
        return None if row is None else row[0]

    def approximate_num_entries(self) -> int:
        """How many keys there are."""
        return int(self._connection.execute("SELECT count(*) FROM entries").fetchone()[0])

    def flush(self) -> None:
        """Nothing: a commit is with the operating system."""

    def wipe(self) -> None:
        """Empties both tables."""
        self._connection.execute("DELETE FROM entries")
        self._connection.execute("DELETE FROM checkpoint")

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()


class VolatileStore(SqliteStore):
    """One that does not survive the process."""

    persistent = False

    def init(self, directory: Path | None) -> None:
        """Opens the store in memory."""
        super().init(None)
