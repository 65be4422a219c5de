"""The messages of librdkafka as columns, by topic-partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millrace.errors import OperationError
from millrace.kafka.columns.kernel import (
    ERROR,
    HAS_HEADERS,
    KEY,
    KEY_BYTES,
    OFFSET,
    PARTITION,
    TABLE_ROWS,
    TIMESTAMP,
    TOPIC,
    VALUE,
    VALUE_BYTES,
    Kernel,
)
from millrace.kafka.columns.reader import RecordHeaders
from millrace.topology.topic_partition import TopicPartition

Longs = npt.NDArray[np.int64]

_MOST_BYTES = 2**31 - 1
"""Offsets of Arrow's binary columns have 32 bits."""


@dataclass(frozen=True, kw_only=True)
class RecordColumns:
    """The records among some messages, in columns.

    Args:
        offsets: int64.
        timestamps: int64 milliseconds.
        keys: binary, with nulls.
        values: binary, with nulls.
        headers: per record, ``None`` where none has any.
    """

    offsets: Longs
    timestamps: Longs
    keys: pa.Array
    values: pa.Array
    headers: list[RecordHeaders | None] | None


class MessageTable:
    """The fields that the kernel found in messages: one row per field, one column per message.

    Args:
        loops: the kernel.
        messages: addresses of the messages, which must live as long as this does.
        fields: see :attr:`Kernel.examine`; of these messages.
    """

    def __init__(self, loops: Kernel, messages: npt.NDArray[np.uint64], fields: Longs | None = None) -> None:
        self._loops = loops
        self.messages = messages
        if fields is None:
            fields = np.empty((TABLE_ROWS, len(messages)), dtype=np.int64)
            loops.examine(_address(messages), len(messages), _address(fields))
        self._fields = fields

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def errors(self) -> Longs:
        """The error codes; 0 for a record."""
        row: Longs = self._fields[ERROR]
        return row

    @property
    def offsets(self) -> Longs:
        """The offsets; for an end-of-partition event the offset of the end."""
        row: Longs = self._fields[OFFSET]
        return row

    def by_partition(self, name_of: Callable[[int], str]) -> Iterator[tuple[TopicPartition | None, MessageTable]]:
        """Yields the messages of each topic-partition, in their order; topic-partitions by their first message.

        Args:
            name_of: the name of a topic whose address is given.

        Yields:
            ``None`` and the messages that are of no topic: errors of the client.
        """
        topics, partitions = self._fields[TOPIC], self._fields[PARTITION]
        changes = np.flatnonzero((topics[1:] != topics[:-1]) | (partitions[1:] != partitions[:-1])) + 1
        starts = [0, *changes.tolist()]
        stops = [*changes.tolist(), len(self)]
        runs: dict[TopicPartition | None, list[tuple[int, int]]] = {}
        names: dict[int, str] = {}
        for start, stop in zip(starts, stops, strict=True):
            topic = int(topics[start])
            if topic and topic not in names:
                names[topic] = name_of(topic)
            runs.setdefault((names[topic], int(partitions[start])) if topic else None, []).append((start, stop))
        for where, own in runs.items():
            yield where, self if len(runs) == 1 else self._take(own)

    def records(self) -> RecordColumns:
        """Returns the messages as columns; none of them may be an error.

        Raises:
            OperationError: they are too large for one column.
        """
        fields = self._fields
        return RecordColumns(
            offsets=fields[OFFSET].copy(),
            timestamps=fields[TIMESTAMP].copy(),
            keys=self._binary(fields[KEY], fields[KEY_BYTES]),
            values=self._binary(fields[VALUE], fields[VALUE_BYTES]),
            headers=self._headers(),
        )

    def without_errors(self) -> MessageTable:
        """Returns the messages that are records."""
        is_record = self.errors == 0
        return self if is_record.all() else self._chosen(np.flatnonzero(is_record))

    def _take(self, runs: list[tuple[int, int]]) -> MessageTable:
        if len(runs) == 1:
            start, stop = runs[0]
            return MessageTable(self._loops, self.messages[start:stop], self._fields[:, start:stop])
        return self._chosen(np.concatenate([np.arange(start, stop) for start, stop in runs]))

    def _chosen(self, rows: npt.NDArray[np.intp]) -> MessageTable:
        return MessageTable(self._loops, self.messages[rows], self._fields[:, rows])

    def _binary(self, addresses: Longs, sizes: Longs) -> pa.Array:
        count = len(addresses)
        total = int(sizes.sum())
        if total > _MOST_BYTES:
            raise OperationError(
                f"{count} records that were read at once have {total} bytes, more than one column holds.",
                remedy="lower consumer.queued.max.messages.kbytes",
            )
        offsets = np.zeros(count + 1, dtype=np.int32)
        np.cumsum(sizes, out=offsets[1:])
        content = np.empty(total, dtype=np.uint8)
        addresses, sizes = np.ascontiguousarray(addresses), np.ascontiguousarray(sizes)
        self._loops.gather(_address(addresses), _address(sizes), count, _address(content))
        is_there = addresses != 0
        nulls = count - int(np.count_nonzero(is_there))
        bitmap = pa.py_buffer(np.packbits(is_there, bitorder="little")) if nulls else None
        return pa.Array.from_buffers(
            pa.binary(), count, [bitmap, pa.py_buffer(offsets), pa.py_buffer(content)], null_count=nulls
        )

    def _headers(self) -> list[RecordHeaders | None] | None:
        rows = np.flatnonzero(self._fields[HAS_HEADERS])
        if not len(rows):
            return None
        found: list[RecordHeaders | None] = [None] * len(self)
        for row, headers in zip(rows.tolist(), self._listed_headers(self.messages[rows]), strict=True):
            found[row] = headers or None
        return found

    def _listed_headers(self, messages: npt.NDArray[np.uint64]) -> Iterator[RecordHeaders]:
        counts = np.empty(len(messages), dtype=np.int64)
        self._loops.count_headers(_address(messages), len(messages), _address(counts))
        parts = np.empty((4, int(counts.sum())), dtype=np.int64)
        self._loops.list_headers(_address(messages), len(messages), _address(counts), *map(_address, parts))
        names = [name.decode(errors="replace") for name in self._binary(parts[0], parts[1]).to_pylist()]
        values = self._binary(parts[2], parts[3]).to_pylist()
        at = 0
        for count in counts.tolist():
            yield list(zip(names[at : at + count], values[at : at + count], strict=True))
            at += count


def _address(array: npt.NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
