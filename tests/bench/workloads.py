"""The payments that every contestant of the benchmark reads, and the counts that each of them must arrive at.

Everything is generated in columns from a seed: the same workload is the same bytes on every machine. All fields have a
fixed width, so a record is one row of a matrix of bytes and three million of them take about a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from confluent_kafka import KafkaError, Message, Producer

IntArray = npt.NDArray[np.int64]

WINDOW_MS = 60_000
GRACE_MS = 60_000
FIRST_EVENT_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z: a fixed start, on a window's boundary."""
EVENTS_PER_SECOND = 5_000
"""The pace of event time: 3 M payments are 10 minutes, and a window holds 300,000 of them."""
LONGEST_DELAY_MS = 5_000
"""How far a payment may lag behind the newest before it: far inside the grace, so that no contestant drops any."""

INPUT_VARIABLE = "MILLRACE_BENCH_INPUT"
OUTPUT_VARIABLE = "MILLRACE_BENCH_OUTPUT"
REPARTITION_VARIABLE = "MILLRACE_BENCH_REPARTITION"
"""Environment variables that tell a contestant whose command takes no arguments the topics, and whether (``True``) its
payments go through a repartition topic."""

KEY_WIDTH = 8
"""A key is ``u`` and seven digits, as the user id in the payment."""
_TEMPLATE = b'{"user":"u0000000","amount":000.00,"currency":"XXX","country":"XX","merchant":"m0000","at":0000000000000}'
_CURRENCIES = np.frombuffer(b"EURUSDGBPCHFSEKPLNCZKDKK", dtype=np.uint8).reshape(-1, 3)
_COUNTRIES = np.frombuffer(b"DEUSGBCHSEPLCZDK", dtype=np.uint8).reshape(-1, 2)
_GENERATED_AT_ONCE = 500_000


@dataclass(frozen=True)
class Workload:
    """How many payments, of how many users, over how many partitions.

    Args:
        name: what tables and topics call it.
        records: payments in the input topic.
        keys: distinct users, drawn uniformly: the case in which a cache helps the least.
        partitions: of the input topic.
        seed: of the random numbers.
    """

    name: str
    records: int
    keys: int
    partitions: int = 4
    seed: int = 20_260_101

    def __post_init__(self) -> None:
        if not 0 < self.keys <= 10_000_000:
            raise ValueError(f"{self.name}: a key has seven digits, so 1 to 10,000,000 keys, not {self.keys}")
        if self.records <= 0 or self.partitions <= 0:
            raise ValueError(f"{self.name}: needs at least one record and one partition")

    def scaled(self, *, records: int | None = None, keys: int | None = None, partitions: int | None = None) -> Workload:
        """The same workload with other sizes, which its name then tells."""
        other = replace(
            self,
            records=records or self.records,
            keys=keys or self.keys,
            partitions=partitions or self.partitions,
        )
        if other == self:
            return self
        return replace(other, name=f"{self.name}-r{other.records}-k{other.keys}-p{other.partitions}")


W1 = Workload("W1", records=3_000_000, keys=100_000)
"""Update-heavy: a user pays three times in a window."""
W2 = Workload("W2", records=3_000_000, keys=1_000)
"""Read-heavy: a user pays 300 times in a window, so most updates merge within a commit."""
WORKLOADS = {workload.name: workload for workload in (W1, W2)}


@dataclass(frozen=True)
class Payments:
    """A run of payments in the order of their arrival; all arrays have one entry a payment.

    Args:
        users: user numbers, ``int64``.
        timestamps: event times, ``int64`` milliseconds.
        partitions: where the Java client's default partitioner puts them, ``int64``.
        keys: key bytes.
        values: JSON bytes.
    """

    users: IntArray
    timestamps: IntArray
    partitions: IntArray
    keys: list[bytes]
    values: list[bytes]


@dataclass(frozen=True)
class WindowCounts:
    """How many records each user has in each window, ordered by user, then window; all arrays are ``int64``.

    Args:
        users: user numbers.
        starts: window starts, milliseconds.
        counts: records of the user in the window, above 0.
    """

    users: IntArray
    starts: IntArray
    counts: IntArray

    def __len__(self) -> int:
        return len(self.users)


def murmur2(words: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """Kafka's 32-bit murmur2 of many byte strings of one length.

    Args:
        words: shape (strings, length), ``uint8``.

    Returns:
        Shape (strings,), ``uint32``. Source: ``org.apache.kafka.common.utils.Utils.murmur2``.
    """
    count, length = words.shape
    mix = np.uint32(0x5BD1E995)
    state = np.full(count, np.uint32(0x9747B28C ^ length), dtype=np.uint32)
    whole = length // 4 * 4
    chunks = np.ascontiguousarray(words[:, :whole]).view("<u4").astype(np.uint32)
    for column in range(whole // 4):
        chunk = chunks[:, column] * mix
        chunk ^= chunk >> np.uint32(24)
        state = (state * mix) ^ (chunk * mix)
    if length > whole:
        for index in range(length - whole):
            state ^= words[:, whole + index].astype(np.uint32) << np.uint32(8 * index)
        state = state * mix
    state ^= state >> np.uint32(13)
    state = state * mix
    return state ^ (state >> np.uint32(15))


def partitions_of(keys: npt.NDArray[np.uint8], partitions: int) -> IntArray:
    """The partition of each key as the Java client's default partitioner chooses it: shape (keys,), ``int64``."""
    return (murmur2(keys) & np.uint32(0x7FFFFFFF)).astype(np.int64) % partitions


def key_matrix(users: IntArray) -> npt.NDArray[np.uint8]:
    """Key bytes of user numbers: shape (users, ``KEY_WIDTH``), ``uint8``."""
    keys = np.empty((len(users), KEY_WIDTH), dtype=np.uint8)
    keys[:, 0] = ord("u")
    _write_digits(keys[:, 1:], users)
    return keys


def _write_digits(target: npt.NDArray[np.uint8], numbers: IntArray) -> None:
    rest = numbers.copy()
    for column in range(target.shape[1] - 1, -1, -1):
        rest, digit = np.divmod(rest, 10)
        target[:, column] = digit + ord("0")


def _rows(matrix: npt.NDArray[np.uint8]) -> list[bytes]:
    # numpy drops trailing zero bytes of fixed-width strings; neither keys nor JSON end in one.
    rows: list[bytes] = np.ascontiguousarray(matrix).view(f"S{matrix.shape[1]}").ravel().tolist()
    return rows


def payments_of(users: IntArray, timestamps: IntArray, random: np.random.Generator, *, partitions: int) -> Payments:
    """Payments with random amounts, currencies, countries and merchants for the given users and event times."""
    count = len(users)
    keys = key_matrix(users)
    values = np.tile(np.frombuffer(_TEMPLATE, dtype=np.uint8), (count, 1))
    user_at = _TEMPLATE.index(b'"user":"') + len(b'"user":"')
    values[:, user_at : user_at + KEY_WIDTH] = keys
    amount_at = _TEMPLATE.index(b"000.00")
    cents = random.integers(10_000, 100_000, size=count, dtype=np.int64)
    _write_digits(values[:, amount_at : amount_at + 3], cents // 100)
    _write_digits(values[:, amount_at + 4 : amount_at + 6], cents % 100)
    currency_at = _TEMPLATE.index(b"XXX")
    origin = random.integers(0, len(_CURRENCIES), size=count)
    values[:, currency_at : currency_at + 3] = _CURRENCIES[origin]
    country_at = _TEMPLATE.index(b'"XX"') + 1
    values[:, country_at : country_at + 2] = _COUNTRIES[origin]
    merchant_at = _TEMPLATE.index(b'"m0000"') + 2
    _write_digits(values[:, merchant_at : merchant_at + 4], random.integers(0, 10_000, size=count, dtype=np.int64))
    at = _TEMPLATE.index(b'"at":') + len(b'"at":')
    _write_digits(values[:, at : at + 13], timestamps)
    return Payments(users, timestamps, partitions_of(keys, partitions), _rows(keys), _rows(values))


def generate(workload: Workload) -> Iterator[Payments]:
    """The workload in arrival order, half a million payments at a time.

    Event time advances by ``EVENTS_PER_SECOND``; each payment arrives late by an exponential delay with a mean of
    300 ms, cut at ``LONGEST_DELAY_MS``, so the records of a partition are mildly out of order.
    """
    random = np.random.default_rng(workload.seed)
    for first in range(0, workload.records, _GENERATED_AT_ONCE):
        arrival = np.arange(first, min(first + _GENERATED_AT_ONCE, workload.records), dtype=np.int64)
        users = random.integers(0, workload.keys, size=len(arrival), dtype=np.int64)
        delays = np.minimum(random.exponential(300.0, size=len(arrival)), LONGEST_DELAY_MS).astype(np.int64)
        timestamps = FIRST_EVENT_MS + LONGEST_DELAY_MS + arrival * 1_000 // EVENTS_PER_SECOND - delays
        yield payments_of(users, timestamps, random, partitions=workload.partitions)


def count_windows(users: IntArray, timestamps: IntArray) -> WindowCounts:
    """Count records per user and one-minute window, with nothing that a contestant has in common with it."""
    starts = timestamps - timestamps % WINDOW_MS
    first = int(starts.min())
    windows = int((starts.max() - first) // WINDOW_MS) + 1
    cells, counts = np.unique(users * windows + (starts - first) // WINDOW_MS, return_counts=True)
    return WindowCounts(cells // windows, first + cells % windows * WINDOW_MS, counts.astype(np.int64))


def load(
    workload: Workload,
    *,
    bootstrap_servers: str,
    topic: str,
    on_progress: Callable[[int], None] = lambda _loaded: None,
) -> WindowCounts:
    """Write the workload to an existing topic and return the counts that it must lead to.

    Args:
        workload: what to generate.
        bootstrap_servers: of the broker.
        topic: with ``workload.partitions`` partitions.
        on_progress: gets the number of records handed over so far, every half million.

    Raises:
        RuntimeError: the broker refused a record, or did not take all of them within two minutes of the last.
    """
    producer = loading_producer(bootstrap_servers)
    users: list[IntArray] = []
    timestamps: list[IntArray] = []
    loaded = 0
    for payments in generate(workload):
        produce(producer, topic, payments)
        users.append(payments.users)
        timestamps.append(payments.timestamps)
        loaded += len(payments.users)
        on_progress(loaded)
    flush(producer, topic)
    return count_windows(np.concatenate(users), np.concatenate(timestamps))


def loading_producer(bootstrap_servers: str, *, linger_ms: int = 50) -> Producer:
    """A producer with large batches; it calls back only for records that the broker refused."""
    return Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "acks": "all",
            "linger.ms": linger_ms,
            "batch.size": 1_000_000,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 512_000,
            "delivery.report.only.error": True,
        }
    )


def produce(producer: Producer, topic: str, payments: Payments) -> None:
    """Hand payments to a producer with their event times and partitions, waiting while its queue is full."""
    send = producer.produce
    rows = zip(payments.keys, payments.values, payments.partitions.tolist(), payments.timestamps.tolist(), strict=True)
    for key, value, partition, timestamp in rows:
        while True:
            try:
                send(topic, value, key, partition, timestamp=timestamp, on_delivery=_refuse_loss)
                break
            except BufferError:
                producer.poll(0.1)
    producer.poll(0)


def _refuse_loss(error: KafkaError | None, message: Message) -> None:
    if error is not None:
        raise RuntimeError(f"the broker refused a record of {message.topic()}: {error}")


def flush(producer: Producer, topic: str, *, timeout_s: float = 120.0) -> None:
    """Wait until the broker has every record.

    Raises:
        RuntimeError: it does not within ``timeout_s``.
    """
    deadline = time.monotonic() + timeout_s
    while producer.flush(1.0):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{len(producer)} records of {topic} were not taken within {timeout_s:.0f} s")
