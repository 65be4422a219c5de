"""Latency under a steady stream: from a payment's timestamp to the committed count that includes it.

A count tells which payments it includes: the k-th payment of a user in a window is in the first committed count of at
least k. So every payment has a latency, also where a cache merged several updates into one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from confluent_kafka import Consumer

from tests.bench.meter import ContestantFailedError
from tests.bench.output import Updates, decode_updates
from tests.bench.topics import partitions_to_read
from tests.bench.workloads import (
    WINDOW_MS,
    IntArray,
    flush,
    loading_producer,
    payments_of,
    produce,
)

WARM_UP_S = 15.0
KEYS = 100_000
_TICK_S = 0.01
_START_LIMIT_S = 120.0
_DRAIN_LIMIT_S = 60.0
_COUNT_BITS = 24


@dataclass(frozen=True)
class Stream:
    """A steady stream of payments.

    Args:
        records_per_s: payments a second.
        measured_s: how long it is measured after the warm-up, seconds.
        through_repartition: whether the contestant sends each payment through a repartition topic before it counts.
    """

    records_per_s: int = 5_000
    measured_s: float = 60.0
    through_repartition: bool = False

    def __str__(self) -> str:
        through = " through a repartition topic" if self.through_repartition else ""
        return f"{self.records_per_s:,} payments a second{through}, for {self.measured_s:g} s"


@dataclass(frozen=True)
class LatencyFigures:
    """Percentiles over the measured payments, milliseconds.

    Args:
        records: payments measured.
        p50_ms: median.
        p99_ms: 99th percentile.
        worst_ms: the longest.
    """

    records: int
    p50_ms: float
    p99_ms: float
    worst_ms: float


@dataclass(frozen=True)
class Sent:
    """Payments that were sent, in order; both arrays are ``int64``.

    Args:
        users: user numbers.
        timestamps: when each was handed to the producer, milliseconds.
    """

    users: IntArray
    timestamps: IntArray


@dataclass(frozen=True)
class Seen:
    """Counts that a read_committed consumer got, in order.

    Args:
        updates: the counts.
        at_ms: when each was received, milliseconds.
    """

    updates: Updates
    at_ms: IntArray


class PaymentStream:
    """Sends payments at a constant rate from a thread of its own until it is stopped."""

    def __init__(
        self, *, bootstrap_servers: str, topic: str, partitions: int, records_per_s: int, seed: int = 7
    ) -> None:
        self._records_per_s = records_per_s
        self._producer = loading_producer(bootstrap_servers, linger_ms=5)
        self._topic = topic
        self._partitions = partitions
        self._random = np.random.default_rng(seed)
        self._users: list[IntArray] = []
        self._timestamps: list[IntArray] = []
        self._failure: Exception | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="payments", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self) -> Sent:
        """End the stream and wait until the broker has every payment.

        Raises:
            RuntimeError: the broker did not take a payment.
        """
        self._stopped.set()
        self._thread.join(timeout=30.0)
        if self._failure is not None:
            raise RuntimeError("the stream of payments broke off") from self._failure
        flush(self._producer, self._topic)
        return Sent(np.concatenate(self._users), np.concatenate(self._timestamps))

    def abandon(self) -> None:
        """End the stream whatever became of it; also after :meth:`stop`."""
        self._stopped.set()
        self._thread.join(timeout=30.0)

    def _run(self) -> None:
        begun = time.monotonic()
        sent = 0
        try:
            while not self._stopped.wait(_TICK_S):
                due = int((time.monotonic() - begun) * self._records_per_s) - sent
                users = self._random.integers(0, KEYS, size=due, dtype=np.int64)
                timestamps = np.full(due, time.time_ns() // 1_000_000, dtype=np.int64)
                produce(
                    self._producer,
                    self._topic,
                    payments_of(users, timestamps, self._random, partitions=self._partitions),
                )
                self._users.append(users)
                self._timestamps.append(timestamps)
                sent += due
        except Exception as error:
            self._failure = error


class _Reader:
    """A read_committed consumer that notes when it got each record."""

    def __init__(self, *, bootstrap_servers: str, topic: str, partitions: int) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": f"{topic}-latency",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 10,
            }
        )
        self._consumer.assign(partitions_to_read(topic, partitions))
        self._topic = topic
        self._keys: list[bytes] = []
        self._values: list[bytes] = []
        self._at_ms: list[int] = []

    def __len__(self) -> int:
        return len(self._keys)

    def read(self) -> None:
        message = self._consumer.poll(0.05)
        if message is None:
            return
        error = message.error()
        if error is not None:
            raise RuntimeError(f"{self._topic}: {error}")
        self._keys.append(message.key() or b"")
        self._values.append(message.value() or b"")
        self._at_ms.append(time.time_ns() // 1_000_000)

    def seen(self) -> Seen:
        return Seen(decode_updates(self._keys, self._values), np.asarray(self._at_ms, dtype=np.int64))

    def close(self) -> None:
        self._consumer.close()


def measure_latency(
    *,
    bootstrap_servers: str,
    input_topic: str,
    output_topic: str,
    partitions: int,
    check_alive: Callable[[], None],
    steady: Stream,
    warm_up_s: float = WARM_UP_S,
) -> LatencyFigures:
    """Send payments to a contestant that has been started, and measure them for a while.

    That begins ``warm_up_s`` after the first output was seen.

    Raises:
        ContestantFailedError: no output came, or the output of some payments did not come.
    """
    reader = _Reader(bootstrap_servers=bootstrap_servers, topic=output_topic, partitions=partitions)
    measured_s = steady.measured_s
    stream = PaymentStream(
        bootstrap_servers=bootstrap_servers,
        topic=input_topic,
        partitions=partitions,
        records_per_s=steady.records_per_s,
    )
    stream.start()
    try:
        _read_until(reader, lambda: len(reader) > 0, check_alive, limit_s=_START_LIMIT_S, what="no output came")
        begin = time.monotonic() + warm_up_s
        _read_until(reader, lambda: time.monotonic() >= begin, check_alive, limit_s=warm_up_s + 10, what="")
        first_ms = time.time_ns() // 1_000_000
        end = begin + measured_s
        _read_until(reader, lambda: time.monotonic() >= end, check_alive, limit_s=measured_s + 10, what="")
        last_ms = time.time_ns() // 1_000_000
        sent = stream.stop()
        deadline = time.monotonic() + _DRAIN_LIMIT_S
        while True:
            # The check costs more than a few records, so it is made once no record has come for a moment.
            known = len(reader)
            reader.read()
            if len(reader) > known:
                continue
            latencies = latencies_of(sent, reader.seen())
            measured = latencies[(sent.timestamps >= first_ms) & (sent.timestamps < last_ms)]
            if not np.isnan(measured).any():
                return figures_of_latencies(measured)
            check_alive()
            if time.monotonic() > deadline:
                missing = int(np.isnan(measured).sum())
                raise ContestantFailedError(f"{missing} payments are in no count {_DRAIN_LIMIT_S:.0f} s after the last")
    finally:
        stream.abandon()
        reader.close()


def _read_until(
    reader: _Reader, reached: Callable[[], bool], check_alive: Callable[[], None], *, limit_s: float, what: str
) -> None:
    begun = time.monotonic()
    checked = begun
    while not reached():
        reader.read()
        now = time.monotonic()
        if now - checked > 1.0:
            check_alive()
            checked = now
        if now - begun > limit_s:
            raise ContestantFailedError(f"{what} within {limit_s:.0f} s")


def latencies_of(sent: Sent, seen: Seen) -> npt.NDArray[np.float64]:
    """Milliseconds from each payment's timestamp to the first count that includes it; NaN where none does."""
    cells = _cells(sent.users, sent.timestamps)
    known, inverse = np.unique(cells, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    firsts = np.searchsorted(inverse[order], np.arange(len(known)))
    ranks = np.empty(len(cells), dtype=np.int64)
    ranks[order] = np.arange(len(cells)) - firsts[inverse[order]] + 1

    seen_cells = _cells(seen.updates.users, seen.updates.starts)
    seen_indices = np.searchsorted(known, seen_cells)
    mine = seen_indices < len(known)
    mine[mine] = known[seen_indices[mine]] == seen_cells[mine]
    codes = (seen_indices[mine] << _COUNT_BITS) + seen.updates.counts[mine]
    by_code = np.argsort(codes, kind="stable")
    codes, at_ms = codes[by_code], seen.at_ms[mine][by_code]

    wanted = (inverse << _COUNT_BITS) + ranks
    found = np.searchsorted(codes, wanted)
    latencies = np.full(len(cells), np.nan)
    covered = found < len(codes)
    covered[covered] = codes[found[covered]] >> _COUNT_BITS == inverse[covered]
    latencies[covered] = at_ms[found[covered]] - sent.timestamps[covered]
    return latencies


def _cells(users: IntArray, timestamps: IntArray) -> IntArray:
    return users * (1 << 27) + timestamps // WINDOW_MS


def figures_of_latencies(latencies: npt.NDArray[np.float64]) -> LatencyFigures:
    """Percentiles of latencies in milliseconds."""
    p50, p99, worst = np.percentile(latencies, [50, 99, 100])
    return LatencyFigures(len(latencies), float(p50), float(p99), float(worst))
