"""The adapter of a user's store to the innermost layer of a store."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import structlog

from millrace.errors import MillraceError, StateCorruptedError, StateError, StateWriteError, error_not_of_user_code
from millrace.state.layout import Packed
from millrace.state.position import TaskPosition
from millrace.topology.custom_stores import StateStore, StoreFactory

_LENGTH = struct.Struct(">i")
_NO_METADATA = -1

_log = structlog.get_logger(__name__)


class CustomBytesStore:
    """A :class:`~millrace.state.bytes_store.BytesStore` on a :class:`~millrace.topology.custom_stores.StateStore`.

    Unlike RocksDB's its writes are not part of the task's one write, so it keeps a position of its own: that of the
    task, as of its own last write. It is written first; after a crash in between it is ahead of the others, which are
    replayed up to it.

    Args:
        store: the user's store, open.
    """

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self.is_damaged = False
        self._staged: list[tuple[bytes, Packed]] = []
        self.position: TaskPosition | None = None
        """The position of the last write, ``None`` where the store must be restored whole."""
        self.metadata: bytes | None = None
        """What the layers above keep with the data (segments of windows)."""
        checkpoint = store.checkpoint() if store.persistent else None
        if checkpoint is not None:
            self.position, self.metadata = _read(checkpoint)

    @property
    def persistent(self) -> bool:
        """Whether the store survives the process."""
        return self._store.persistent

    def get(self, key: bytes) -> Packed:
        """Returns the value of ``key``.

        Raises:
            StateError: the store failed.
        """
        with self._calling("a read"):
            return self._store.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[Packed]:
        """Returns the values of ``keys``, in their order.

        Raises:
            StateError: the store failed.
        """
        with self._calling("a read"):
            return list(map(self._store.get, keys))

    def scan(self, from_key: bytes, before: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Yields the entries of a range, in key order.

        Raises:
            StateError: the store failed.
        """
        with self._calling("a scan"):
            yield from self._store.range(from_key, before)

    def stage(self, batch: Any, keys: Sequence[bytes], values: Sequence[Packed]) -> None:  # noqa: ARG002
        """Stages the writes until :meth:`write`."""
        self._staged += zip(keys, values, strict=True)

    def stage_delete_range(self, batch: Any, begin: bytes, end: bytes) -> None:  # noqa: ARG002
        """Stages the deletion of the present keys of the range until :meth:`write`."""
        self._staged += [(key, None) for key, _ in self.scan(begin, end)]

    def write(self, position: TaskPosition | None) -> None:
        """Writes the staged writes, with the position that they reach and :attr:`metadata`.

        Args:
            position: ``None`` leaves it as it was: while a changelog is replayed.

        Raises:
            StateWriteError: the store refused it.
        """
        self.position = self.position if position is None else position
        try:
            self._store.write(self._staged, _written(self.position or TaskPosition(), self.metadata))
            self._store.flush()
        except Exception as error:
            self._pass_on(error)
            raise StateWriteError(
                f"The store {self._store.name} ({type(self._store).__name__}) refused a write: "
                f"{type(error).__name__}: {error}",
                remedy="correct the store; what was committed to Kafka is brought to it at the next start",
            ) from error

    @contextmanager
    def _calling(self, what: str) -> Iterator[None]:
        """Converts errors that the user's store raises inside to errors of the state, since no record causes them.

        Raises:
            StateCorruptedError: the store says so; it is emptied and restored from its changelog, as RocksDB is.
            StateError: the store failed.
        """
        try:
            yield
        except Exception as error:
            self._pass_on(error)
            raise StateError(
                f"The store {self._store.name} ({type(self._store).__name__}) failed at {what}: "
                f"{type(error).__name__}: {error}",
                remedy="correct the store; where what it holds is damaged it may raise a StateCorruptedError, which "
                "has it emptied and restored from its changelog",
            ) from error

    def _pass_on(self, error: Exception) -> None:
        own = error if isinstance(error, MillraceError) else error_not_of_user_code(error)
        if own is not None:
            self.is_damaged |= isinstance(own, StateCorruptedError)
            raise own

    def apply_staged(self) -> None:
        """Clears the staged writes, after they were made."""
        self._staged = []

    def discard_staged(self) -> None:
        """Discards the staged writes."""
        self._staged = []

    def is_empty(self) -> bool:
        """Returns whether there is no committed entry."""
        return not any(True for _ in islice(self.scan(b"", None), 1))

    def size(self) -> tuple[int, int]:
        """Returns the number of keys that the store reports; their bytes are not known and returned as 0."""
        return self._store.approximate_num_entries(), 0

    def wipe(self) -> None:
        """Removes all data."""
        self._store.wipe()
        self.is_damaged = False

    def close(self) -> None:
        """Closes the user's store. An error is logged only, since the other stores must be closed too."""
        try:
            self._store.close()
        except Exception as error:
            _log.error("store not closed", store=self._store.name, error=repr(error))


def open_custom_store(name: str, create: StoreFactory, directory: Path | None) -> CustomBytesStore:
    """Returns the user's store of a task.

    Raises:
        StateError: it cannot be made or opened, or is none.
    """
    try:
        store = create(name)
        if isinstance(store, StateStore):
            store.init(directory)
            return CustomBytesStore(store)
    except MillraceError:
        raise
    except Exception as error:
        raise StateError(
            f"The store {name} cannot be opened: {type(error).__name__}: {error}", remedy="fix the store"
        ) from error
    raise StateError(
        f"What was made for the store {name} is a {type(store).__name__}, which lacks methods of StateStore.",
        remedy="implement millrace.dsl.StateStore",
    )


def with_positions_of(
    position: TaskPosition, stores: Mapping[str, CustomBytesStore], *, has_database: bool
) -> TaskPosition:
    """Returns the position of a task of which some stores keep their own positions.

    Where they disagree, no input is known to be in all of them: each is then brought forward from its own changelog
    offset, and stores without a changelog begin again.

    Args:
        position: that of the task's database.
        stores: the users' stores.
        has_database: whether the task has a database at all.
    """
    own = {name: store.position for name, store in stores.items() if store.persistent}
    if not own:
        return position
    all_of_them = [*([position] if has_database else []), *(each or TaskPosition() for each in own.values())]
    changelogs = dict(position.changelogs)
    for each in own.values():
        changelogs.update({} if each is None else each.changelogs)
    first = all_of_them[0]
    written = [each.written_at_ms for each in all_of_them if each.written_at_ms]
    agree = all(each.inputs == first.inputs for each in all_of_them)
    return replace(
        first,
        inputs=first.inputs if agree else {},
        changelogs=changelogs,
        written_at_ms=min(written, default=0),
    )


def _written(position: TaskPosition, metadata: bytes | None) -> bytes:
    length = _NO_METADATA if metadata is None else len(metadata)
    return _LENGTH.pack(length) + (metadata or b"") + position.to_bytes()


def _read(checkpoint: bytes) -> tuple[TaskPosition, bytes | None]:
    try:
        (length,) = _LENGTH.unpack_from(checkpoint)
    except struct.error as error:
        raise StateError(
            f"A store gave back a checkpoint that it was not given: {checkpoint[:80]!r}.",
            remedy="return the bytes of the last write() from checkpoint(), or None",
        ) from error
    start = _LENGTH.size
    metadata = None if length == _NO_METADATA else checkpoint[start : start + length]
    return TaskPosition.from_bytes(checkpoint[start + max(length, 0) :]), metadata
