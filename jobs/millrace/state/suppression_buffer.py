"""The buffer of a suppressed table: buffered changes, ordered by the time of their key's first one.

Source: ``InMemoryTimeOrderedKeyValueChangeBuffer``. As there all of it is in memory; unlike there the task's database
has it as well, so that a restart does not have to read the changelog.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from millrace.errors import StateError
from millrace.state.buffer_layout import BUFFER_HEADERS, BufferedChange, BufferedRecordContext
from millrace.state.bytes_store import BytesStore
from millrace.state.changelog import ChangelogBatch
from millrace.state.contents import StoreRecord
from millrace.state.layered import LayeredStore

Headers = list[tuple[str, bytes | None]]


class SuppressionBuffer(LayeredStore):
    """Buffered changes by key. A new change replaces its key's one, at the same position in the order.

    The changelog gets the last state of each key that changed since the last drain: its change, or a tombstone.

    Args:
        name: name of the store.
        committed: the bytes store, with values as in the changelog.
        logged: whether a changelog backs the buffer.
    """

    def __init__(self, name: str, committed: BytesStore, *, logged: bool) -> None:
        super().__init__(name, committed, None)
        self._logged = logged
        self._entries: dict[bytes, BufferedChange] = {}
        self._order: list[tuple[int, bytes]] = []
        self._bytes = 0
        self._before: dict[bytes, BufferedChange | None] = {}
        self._undrained: dict[bytes, None] = {}
        for key, data in committed.scan(b""):
            self._entries[key] = BufferedChange.from_bytes(key, data)
        self._reorder()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def used_bytes(self) -> int:
        """The bytes that the changes count for."""
        self._in_order()
        return self._bytes

    @property
    def first_time(self) -> int | None:
        """Time of the change that is emitted next, milliseconds; ``None`` if the buffer is empty."""
        return order[0][0] if (order := self._in_order()) else None

    @property
    def has_uncommitted_writes(self) -> bool:
        """Whether there is something to commit."""
        return bool(self._before)

    @property
    def has_undrained_writes(self) -> bool:
        """Whether there are changes to drain."""
        return bool(self._undrained)

    def get(self, key: bytes) -> BufferedChange | None:
        """Returns the buffered change of a key; ``None`` if there is none."""
        return self._entries.get(key)

    def get_committed(self, key: bytes) -> BufferedChange | None:
        """Returns the change of a key that was buffered at the last commit; ``None`` if there was none."""
        return self._before[key] if key in self._before else self._entries.get(key)

    def put(self, key: bytes, at: int, old: bytes | None, new: bytes | None, context: BufferedRecordContext) -> None:
        """Adds a change, or replaces its key's one.

        Args:
            key: key of the row.
            at: what it is ordered by where the key has no change yet, milliseconds.
            old: value of the row before the change.
            new: value after it.
            context: the record that it came with.
        """
        known = self._entries.get(key)
        if known is None:
            change = BufferedChange(at, old, old, new, context).sized(key)
            heappush(self._in_order(), (at, key))
        else:
            change = BufferedChange(known.time, known.prior, old, new, context).sized(key)
            self._bytes -= known.size
        self._bytes += change.size
        self._metrics.puts += 1
        self._remember(key, known)
        self._entries[key] = change

    def pop(self) -> tuple[bytes, BufferedChange]:
        """Removes the first change and returns it, with its key; there must be one."""
        _, key = heappop(self._in_order())
        change = self._entries[key]
        self._remember(key, change)
        del self._entries[key]
        self._bytes -= change.size
        return key, change

    def all(self) -> Iterator[tuple[bytes, BufferedChange]]:
        """Yields (key, change) of all buffered changes, in the order in which they are emitted."""
        for _, key in sorted(self._in_order()):
            yield key, self._entries[key]

    @property
    def record_headers(self) -> Headers | None:
        """Headers of the changelog's records that have a value."""
        return BUFFER_HEADERS

    def records(self) -> Iterator[StoreRecord]:
        """Yields all committed changes as changelog records."""
        for key, data in self._committed.scan(b""):
            yield key, data, BufferedChange.from_bytes(key, data).context.timestamp

    def approximate_num_entries(self) -> int:
        """Returns the number of buffered changes."""
        return len(self._entries)

    def size(self) -> tuple[int, int]:
        """Returns the number of buffered changes, and the bytes that they count for."""
        return len(self._entries), self.used_bytes

    def drain_changelog(self) -> ChangelogBatch | None:
        """Returns the changes since the last drain; ``None`` if there are none."""
        keys, self._undrained = list(self._undrained), {}
        if not keys:
            return None
        changes = [self._entries.get(key) for key in keys]
        # As in Kafka Streams, where the producer stamps these records.
        now = int(time.time() * 1000)
        return ChangelogBatch(
            store=self._name,
            keys=keys,
            values=[None if change is None else change.to_bytes() for change in changes],
            timestamps=np.full(len(keys), now, dtype=np.int64),
            headers=[None if change is None else BUFFER_HEADERS for change in changes],
        )

    def stage(self, batch: Any) -> None:
        """Adds the changes since the last commit to a commit."""
        keys = sorted(self._before)
        changes = [self._entries.get(key) for key in keys]
        self._committed.stage(batch, keys, [None if change is None else change.to_bytes() for change in changes])

    def committed(self) -> None:
        """Makes the changes committed data, after the commit has succeeded."""
        self._committed.apply_staged()
        self._before = {}

    def rollback(self) -> None:
        """Discards the uncommitted changes."""
        if not self._before:
            return
        for key, change in self._before.items():
            if change is None:
                self._entries.pop(key, None)
            else:
                self._entries[key] = change
        self._before, self._undrained = {}, {}
        self._reorder()

    def stage_restored(
        self,
        batch: Any,
        keys: list[bytes],
        values: list[bytes | None],
        headers: Sequence[Headers | None] | None,
    ) -> int:
        """Adds changelog records to a commit, without logging them.

        Returns:
            how many there were.

        Raises:
            StateError: one has another layout than version 3.
        """
        changes: dict[bytes, BufferedChange | None] = {}
        for row, (key, value) in enumerate(zip(keys, values, strict=True)):
            if value is not None and (headers is None or ("v", b"\x03") not in (headers[row] or ())):
                raise StateError(
                    f"The changelog of buffer {self._name} has a record under {key!r} that is not of version 3 of its "
                    f"layout; its headers are {None if headers is None else headers[row]}.",
                    remedy="let Kafka Streams 2.6 or newer run the application until the buffer is written again, or "
                    "reset the application",
                )
            changes[key] = None if value is None else BufferedChange.from_bytes(key, value)
        for key, change in changes.items():
            if change is None:
                self._entries.pop(key, None)
            else:
                self._entries[key] = change
        # A restoration comes in many batches: put in order once, when a caller asks.
        self._is_unordered = True
        ordered = sorted(changes)
        staged = [None if (change := changes[key]) is None else change.to_bytes() for key in ordered]
        self._committed.stage(batch, ordered, staged)
        return len(keys)

    def _remember(self, key: bytes, before: BufferedChange | None) -> None:
        self._before.setdefault(key, before)
        if self._logged:
            self._undrained.setdefault(key)

    def _reorder(self) -> None:
        self._order = [(change.time, key) for key, change in self._entries.items()]
        heapify(self._order)
        self._bytes = sum(change.size for change in self._entries.values())
        self._is_unordered = False

    def _in_order(self) -> list[tuple[int, bytes]]:
        if self._is_unordered:
            self._reorder()
        return self._order
