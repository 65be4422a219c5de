"""What the output must be, computed in plain Python from the input as a plain consumer reads it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson

from tests.records import ReadRecord

WINDOW_MS = 1_000
BUCKETS = 7
MULTIPLIER = 31
MODULUS = 2**61 - 1

WindowKey = tuple[bytes, int]


@dataclass(frozen=True)
class Expected:
    """The output of the topology ``build``.

    Args:
        copy: the numbers of each partition, in order.
        running: counts with their timestamps, by key.
        folds: for each key and window start, what the fold is after each record that was in time.
        late: records that were not.
        buckets: how many records each bucket has.
    """

    copy: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    running: dict[bytes, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    folds: dict[WindowKey, list[int]] = field(default_factory=lambda: defaultdict(list))
    late: list[int] = field(default_factory=list)
    buckets: Counter[bytes] = field(default_factory=Counter)


def expected_of(records: Sequence[ReadRecord]) -> Expected:
    """What has to come of the input, which is sorted by partition and offset."""
    expected = Expected()
    stream_times: dict[int, int] = {}
    for record in records:
        assert record.key is not None
        assert record.value is not None
        number = orjson.loads(record.value)["n"]
        expected.copy[record.partition].append(number)
        counts = expected.running[record.key]
        newest = max(record.timestamp, counts[-1][1] if counts else 0)
        counts.append((len(counts) + 1, newest))
        expected.buckets[b"bucket-%d" % (number % BUCKETS)] += 1
        stream_time = max(stream_times.get(record.partition, 0), record.timestamp)
        stream_times[record.partition] = stream_time
        start = record.timestamp // WINDOW_MS * WINDOW_MS
        if start + WINDOW_MS <= stream_time:
            expected.late.append(number)
            continue
        steps = expected.folds[record.key, start]
        steps.append(((steps[-1] if steps else 0) * MULTIPLIER + number) % MODULUS)
    return expected


def long_of(value: bytes | None) -> int:
    """A Kafka long."""
    assert value is not None
    assert len(value) == 8
    return int.from_bytes(value, "big", signed=True)


def window_of(key: bytes | None) -> WindowKey:
    """Key and window start of a record that ``TimeWindowedSerde`` wrote."""
    assert key is not None
    return key[:-8], long_of(key[-8:])
