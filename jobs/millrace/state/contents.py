"""The content of a store as changelog records, which make an empty store equal to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from millrace.serdes import Serde, SessionWindowedSerde, TimeWindowedSerde
from millrace.serdes.subscriptions import CombinedKeySerde, split_combined_key
from millrace.state.layout import WINDOW_SUFFIX_BYTES
from millrace.state.record_file import Headers, RecordBatch
from millrace.topology.stores import StoreKind, StoreSpec

BATCH_RECORDS = 10_000
_SESSION_SUFFIX_BYTES = 16
_WINDOW_START_BYTES = 8

StoreRecord = tuple[bytes, bytes | None, int]
"""Key and value in the layout of the changelog, and the timestamp."""


def in_batches(records: Iterable[StoreRecord], headers: Headers | None = None) -> Iterator[RecordBatch]:
    """Yields the records in batches.

    Args:
        records: key, value and timestamp of each.
        headers: those of each record that has a value.
    """
    remaining = iter(records)
    while rows := list(islice(remaining, BATCH_RECORDS)):
        yield RecordBatch(
            keys=[key for key, _, _ in rows],
            values=[value for _, value, _ in rows],
            timestamps=np.array([timestamp for _, _, timestamp in rows], dtype=np.int64),
            headers=None if headers is None else [None if value is None else headers for _, value, _ in rows],
        )


def routing_key(store: StoreSpec, key: bytes) -> bytes:
    """Returns the bytes by which Kafka's partitioner chose the partition of a row: those of the un-windowed key.

    Args:
        store: the store.
        key: the row's key in the layout of the changelog.
    """
    if store.kind is StoreKind.WINDOW:
        return _unwindowed(store.key_serde, key[:-WINDOW_SUFFIX_BYTES])
    if store.kind is StoreKind.SESSION:
        return _unwindowed(store.key_serde, key[:-_SESSION_SUFFIX_BYTES])
    return _unwindowed(store.key_serde, key)


def _unwindowed(serde: Serde | None, key: bytes) -> bytes:
    match serde:
        case TimeWindowedSerde():
            return key[:-_WINDOW_START_BYTES]
        case SessionWindowedSerde():
            return key[:-_SESSION_SUFFIX_BYTES]
        case CombinedKeySerde():
            # The subscriptions of a foreign-key join are where the foreign key is.
            return split_combined_key(key)[0]
        case _:
            return key
