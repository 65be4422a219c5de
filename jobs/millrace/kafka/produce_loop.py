"""The loop that hands columns of records to librdkafka, with as little Python per record as possible."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import length_hint
from typing import Any, Protocol

from millrace.kafka.record_limits import Headers

_QUEUE_WAIT_S = 0.05

DeliveryReport = Callable[[Any, Any], None]


class ProducerClient(Protocol):
    """The part of ``confluent_kafka.Producer`` that Millrace uses."""

    def list_topics(self, topic: str, timeout: float, /) -> Any: ...  # noqa: D102
    def init_transactions(self, timeout: float = ..., /) -> None: ...  # noqa: D102
    def begin_transaction(self) -> None: ...  # noqa: D102
    def send_offsets_to_transaction(self, positions: Any, group_metadata: Any, timeout: float = ..., /) -> None: ...  # noqa: D102
    def commit_transaction(self, timeout: float = ..., /) -> None: ...  # noqa: D102
    def abort_transaction(self, timeout: float = ..., /) -> None: ...  # noqa: D102
    def poll(self, timeout: float = ..., /) -> int: ...  # noqa: D102
    def flush(self, timeout: float = ..., /) -> int: ...  # noqa: D102
    def purge(self) -> None: ...  # noqa: D102

    @property
    def produce(self) -> Callable[..., None]: ...  # noqa: D102


class QueueStayedFullError(Exception):
    """The error where the client's send queue stayed full for longer than allowed."""


@dataclass(frozen=True, kw_only=True)
class OutgoingRecords:
    """The records for one topic, in columns of equal length.

    Args:
        topic: where to.
        keys: key bytes or ``None``.
        values: value bytes or ``None``.
        timestamps: milliseconds.
        targets: partitions (-1: the client chooses), or one for all.
        headers: for each record a list of headers or ``None``; ``None`` for no headers at all.
        reports: for each record who is told of its delivery, or one (or ``None``) for all.
    """

    topic: str
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps: Sequence[int]
    targets: Sequence[int] | int
    headers: Sequence[Headers | None] | None
    reports: Sequence[DeliveryReport | None] | DeliveryReport | None

    def __post_init__(self) -> None:
        # The columns are walked side by side, which would end silently at the shortest.
        columns = (self.keys, self.values, self.timestamps, self.targets, self.headers, self.reports)
        lengths = {len(column) for column in columns if isinstance(column, Sequence)}
        if len(lengths) > 1:
            raise ValueError(f"columns of records for {self.topic} have different lengths: {sorted(lengths)}")

    def rows(self, start: int, end: int | None = None) -> OutgoingRecords:
        """Returns the records from row ``start`` up to row ``end``."""
        part = slice(start, end)
        return OutgoingRecords(
            topic=self.topic,
            keys=self.keys[part],
            values=self.values[part],
            timestamps=self.timestamps[part],
            targets=self.targets if isinstance(self.targets, int) else self.targets[part],
            headers=None if self.headers is None else self.headers[part],
            reports=self.reports[part] if isinstance(self.reports, Sequence) else self.reports,
        )


def produce(client: ProducerClient, records: OutgoingRecords, *, queue_limit_s: float) -> None:
    """Hands records to the client, and waits while its queue is full.

    The loop runs in C: ``produce_batch`` of the client and a Python loop with keyword arguments are both slower.

    Raises:
        QueueStayedFullError: no room within ``queue_limit_s`` seconds.
        confluent_kafka.KafkaException: the client refused a record.
    """
    while True:
        row = _produce_until_full(client, records)
        if row is None:
            return
        _wait_for_room(client, records.rows(row, row + 1), queue_limit_s)
        records = records.rows(row + 1)


def _produce_until_full(client: ProducerClient, records: OutgoingRecords) -> int | None:
    values = iter(records.values)
    calls = map(
        client.produce,
        repeat(records.topic),
        values,
        records.keys,
        repeat(records.targets) if isinstance(records.targets, int) else records.targets,
        _reports(records),
        repeat(None),  # the report's other name
        records.timestamps,
        *(() if records.headers is None else (records.headers,)),
    )
    try:
        deque(calls, maxlen=0)
    except BufferError:
        return len(records.values) - length_hint(values) - 1
    return None


def _wait_for_room(client: ProducerClient, first: OutgoingRecords, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    client.poll(_QUEUE_WAIT_S)
    while _produce_until_full(client, first) is not None:
        if time.monotonic() >= deadline:
            raise QueueStayedFullError
        client.poll(_QUEUE_WAIT_S)


def _reports(records: OutgoingRecords) -> Iterable[DeliveryReport | None]:
    return records.reports if isinstance(records.reports, Sequence) else repeat(records.reports)
