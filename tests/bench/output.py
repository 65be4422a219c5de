"""Reads what a contestant has committed and compares it with the counts that were computed independently.

All contestants write the same bytes: the key is the user's key followed by the window's start (8 bytes, big-endian),
the value is the count (8 bytes, big-endian), as Kafka Streams' serdes for windowed keys and longs have it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from confluent_kafka import Consumer, KafkaError

from tests.bench.topics import partitions_to_read
from tests.bench.workloads import KEY_WIDTH, WINDOW_MS, IntArray, WindowCounts

_AT_ONCE = 20_000
_WINDOWED_KEY_WIDTH = KEY_WIDTH + 8


@dataclass(frozen=True)
class Updates:
    """Records of an output topic in the order in which a consumer got them; all arrays are ``int64``.

    Args:
        users: user numbers.
        starts: window starts, milliseconds.
        counts: the counts written.
    """

    users: IntArray
    starts: IntArray
    counts: IntArray

    def __len__(self) -> int:
        return len(self.users)


class WrongOutputError(AssertionError):
    """A contestant's output is not what the input leads to."""


def decode_updates(keys: list[bytes], values: list[bytes]) -> Updates:
    """Columns of output records.

    Raises:
        WrongOutputError: a key or value does not have the expected length.
    """
    if any(len(key) != _WINDOWED_KEY_WIDTH for key in keys) or any(len(value) != 8 for value in values):
        raise WrongOutputError("an output record is not a windowed user key with a long")
    rows = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(-1, _WINDOWED_KEY_WIDTH)
    digits = rows[:, 1:KEY_WIDTH].astype(np.int64) - ord("0")
    users = digits @ (10 ** np.arange(KEY_WIDTH - 2, -1, -1, dtype=np.int64))
    return Updates(users, _big_endian(rows[:, KEY_WIDTH:].tobytes()), _big_endian(b"".join(values)))


def _big_endian(data: bytes) -> npt.NDArray[np.int64]:
    return np.frombuffer(data, dtype=">i8").astype(np.int64)


def read_updates(*, bootstrap_servers: str, topic: str, partitions: int, timeout_s: float = 180.0) -> Updates:
    """Everything that is committed in a topic now.

    Raises:
        WrongOutputError: a record is not what contestants write.
        TimeoutError: the end was not reached within ``timeout_s``.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": f"{topic}-check",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "queued.max.messages.kbytes": 262_144,
        }
    )
    deadline = time.monotonic() + timeout_s
    parts: list[Updates] = []
    try:
        consumer.assign(partitions_to_read(topic, partitions))
        open_partitions = set(range(partitions))
        while open_partitions:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"partitions {sorted(open_partitions)} of {topic} were not read in {timeout_s:.0f} s"
                )
            keys: list[bytes] = []
            values: list[bytes] = []
            for message in consumer.consume(_AT_ONCE, timeout=0.2):
                error = message.error()
                if error is None:
                    keys.append(message.key() or b"")
                    values.append(message.value() or b"")
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_partitions.discard(message.partition())
                else:
                    raise RuntimeError(f"{topic}: {error}")
            if keys:
                parts.append(decode_updates(keys, values))
    finally:
        consumer.close()
    if not parts:
        raise WrongOutputError(f"nothing is committed in {topic}")
    return Updates(
        np.concatenate([part.users for part in parts]),
        np.concatenate([part.starts for part in parts]),
        np.concatenate([part.counts for part in parts]),
    )


def check_counts(updates: Updates, expected: WindowCounts, *, exactly_once: bool) -> None:
    """Compare the last count of each user and window with the expected ones.

    Args:
        updates: the whole output, in order within each user and window.
        expected: counts of the input.
        exactly_once: also refuse a count that was written twice, as a batch that was processed again would do.

    Raises:
        WrongOutputError: with what differs.
    """
    cells = _cells(updates.users, updates.starts)
    _, last_from_end = np.unique(cells[::-1], return_index=True)
    last = len(cells) - 1 - last_from_end
    wanted = _cells(expected.users, expected.starts)
    if not np.array_equal(cells[last], wanted):
        missing = len(np.setdiff1d(wanted, cells))
        foreign = len(np.setdiff1d(cells, wanted))
        raise WrongOutputError(f"{missing} windows of users are missing, {foreign} are not in the input")
    wrong = np.flatnonzero(updates.counts[last] != expected.counts)
    if len(wrong):
        row = wrong[0]
        raise WrongOutputError(
            f"{len(wrong)} of {len(expected)} counts are wrong, the first one of user {expected.users[row]} at "
            f"{expected.starts[row]}: {updates.counts[last][row]} instead of {expected.counts[row]}"
        )
    if exactly_once:
        written = np.stack([cells, updates.counts], axis=1)
        doubled = len(written) - len(np.unique(written, axis=0))
        if doubled:
            raise WrongOutputError(f"{doubled} counts were written more than once")


def _cells(users: IntArray, starts: IntArray) -> IntArray:
    """One number for each user and window; ordered by user, then start, for event times before the year 2100."""
    return users * (1 << 27) + starts // WINDOW_MS
