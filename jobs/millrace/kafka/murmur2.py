"""Kafka's default partitioner: murmur2 of the key bytes, as the Java producer and Spark use it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_SEED = 0x9747B28C
_M = 0x5BD1E995
_R = 24
_MASK = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF


def murmur2(data: bytes) -> int:
    """Returns the 32-bit murmur2 hash with Kafka's seed, as an unsigned number.

    Source: the algorithm of A. Appleby; seed and use as in Kafka's ``Utils.murmur2``.
    """
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * _M & _MASK
        k ^= k >> _R
        h = (h * _M & _MASK) ^ (k * _M & _MASK)
    if length != whole:
        h ^= int.from_bytes(data[whole:], "little")
        h = h * _M & _MASK
    h ^= h >> 13
    h = h * _M & _MASK
    return h ^ h >> 15


def partition_for(key: bytes, partitions: int) -> int:
    """Returns the partition of a record with this key in a topic with ``partitions`` partitions."""
    return (murmur2(key) & _POSITIVE) % partitions


def partitions_for(keys: Sequence[bytes | None] | pa.BinaryArray, partitions: int) -> npt.NDArray[np.int32]:
    """Returns the partitions of many records at once.

    Args:
        keys: key bytes, as a list or as an Arrow binary array (any of its offset widths).
        partitions: number of partitions of the topic.

    Returns:
        Partition of each key, int32, shape ``(len(keys),)``; -1 for a null key, which may go anywhere (the producer
        then picks one at random).
    """
    array = keys if isinstance(keys, pa.Array) else pa.array(keys, pa.large_binary())
    return _partitions(*_flat(array), partitions=partitions)


def _flat(array: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64], object]:
    array = array.cast(pa.large_binary()) if array.type != pa.large_binary() else array
    _, offset_buffer, data_buffer = array.buffers()
    count = len(array)
    offsets = np.frombuffer(offset_buffer, np.int64, count + 1, array.offset * 8)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    valid = None if array.null_count == 0 else array.is_valid().to_numpy(zero_copy_only=False)
    return data, offsets[:-1], np.diff(offsets), valid


def _partitions(
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    valid: object,
    *,
    partitions: int,
) -> npt.NDArray[np.int32]:
    hashes = np.empty(len(starts), np.uint32)
    widths = np.unique(lengths)
    for width in widths:
        rows = slice(None) if len(widths) == 1 else np.flatnonzero(lengths == width)
        hashes[rows] = _hash_equal_width(data, starts[rows], int(width))
    result = ((hashes & np.uint32(_POSITIVE)) % np.uint32(partitions)).astype(np.int32)
    if valid is not None:
        result[~np.asarray(valid)] = -1
    return result


def _hash_equal_width(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.uint32]:
    m = np.uint32(_M)
    h = np.full(len(starts), _SEED ^ width, np.uint32)
    whole = width & ~3
    for i in range(0, whole, 4):
        k = _gather(data, starts + i, 4) * m
        k ^= k >> np.uint32(_R)
        h = (h * m) ^ (k * m)
    if width != whole:
        h ^= _gather(data, starts + whole, width - whole)
        h *= m
    h ^= h >> np.uint32(13)
    h *= m
    h ^= h >> np.uint32(15)
    return h


def _gather(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.uint32]:
    word = data[at].astype(np.uint32)
    for byte in range(1, width):
        word |= data[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    return word
