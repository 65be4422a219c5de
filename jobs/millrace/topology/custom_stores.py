"""Stores that users write: the protocol, and what Millrace does around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable


@runtime_checkable
class StateStore(Protocol):
    """Committed keys and values of one store in one task, as bytes.

    It is the innermost layer. Millrace puts around it what every store has: windows and sessions (as parts of the
    key), timestamps (the first 8 bytes of each value), caching, the changelog, and an overlay of what the running
    batch has written. So a store is asked to write only what is committed, and needs no rollback:

    - :meth:`write` is called once a batch, after its Kafka transaction has committed. A batch that fails is never
      written.
    - A crash before or inside :meth:`write` loses nothing: what the transaction has is in the changelog, and is written
      from there when the task opens again, on whichever host.
    - A store that is not ``persistent`` begins empty whenever it is opened, and is restored from its whole changelog.
    - A ``persistent`` one keeps the ``checkpoint`` that comes with each :meth:`write` in the same atomic step as the
      entries, and returns the last one. It says how far the store is, so that only later changes are replayed. A store
      that gives none back is restored whole.

    One thread at a time uses it, not always the same one: a restoration writes from a thread of its own. Every method
    may raise; the task is then closed, and its next attempt opens the store again. What it raises stops the task and is
    never taken for the failure of a record; with a ``StateCorruptedError`` (``millrace.errors``) the stores of the task
    are wiped and restored from their changelogs, as where the files of RocksDB are damaged.
    Source: ``org.apache.kafka.streams.processor.StateStore``, and the bytes stores that it wraps.
    """

    @property
    def name(self) -> str:
        """Name of the store."""

    @property
    def persistent(self) -> bool:
        """Whether entries and checkpoint survive the process."""

    def init(self, directory: Path | None) -> None:
        """Opens the store.

        Args:
            directory: the task's directory, which no other process uses; a persistent store makes a file or directory
                of its own there. ``None`` (in tests) asks for a store in memory.
        """

    def get(self, key: bytes) -> bytes | None:
        """Returns the value of a key."""

    def range(self, from_key: bytes, before: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Returns the entries from ``from_key`` until before ``before`` (``None``: to the end), in the bytes' order."""

    def write(self, entries: Sequence[tuple[bytes, bytes | None]], checkpoint: bytes) -> None:
        """Writes entries (``None`` deletes) and the checkpoint: all of it or nothing, also when the process dies."""

    def checkpoint(self) -> bytes | None:
        """Returns the checkpoint of the last :meth:`write`, ``None`` before the first."""

    def approximate_num_entries(self) -> int:
        """Returns about how many keys there are."""

    def flush(self) -> None:
        """Hands what was written to the operating system: it must survive the death of the process from here on."""

    def wipe(self) -> None:
        """Removes all entries and the checkpoint; the store stays open."""

    def close(self) -> None:
        """Closes the store. It is called once."""


StoreFactory: TypeAlias = Callable[[str], StateStore]
"""``name -> store``: a class, or a function, that worker processes can import. Called once for each task."""
