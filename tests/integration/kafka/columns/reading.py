"""What tests of partition readers share."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from millrace.kafka.columns import PartitionColumns, PartitionReader, ReaderSettings
from millrace.kafka.columns.choice import OPENERS

LIMIT_S = 30.0
READERS = sorted(OPENERS)


@dataclass
class Got:
    """What polls brought of one topic-partition, one after the other."""

    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    headers: list[Any] = field(default_factory=list)
    position: int = -1
    end: int | None = None
    log_end: int | None = None

    def add(self, columns: PartitionColumns) -> None:
        size = len(columns)
        assert len(columns.timestamps) == len(columns.keys) == len(columns.values) == size
        assert columns.position >= self.position
        self.keys += columns.keys.to_pylist()
        self.values += columns.values.to_pylist()
        self.offsets += columns.offsets.tolist()
        self.timestamps += columns.timestamps.tolist()
        self.headers += [None] * size if columns.headers is None else columns.headers
        self.position = columns.position
        self.end = columns.end
        self.log_end = columns.log_end
        assert self.position > max(self.offsets, default=-1)


class Reading:
    """A reader, and what it has brought so far by topic-partition."""

    def __init__(self, reader: PartitionReader) -> None:
        self.reader = reader
        self.got: dict[tuple[str, int], Got] = {}
        self.polls: list[list[PartitionColumns]] = []

    def poll(self, timeout_s: float = 0.2, max_records: int = 100_000) -> list[PartitionColumns]:
        news = self.reader.poll(timeout_s, max_records)
        assert len({each.topic_partition for each in news}) == len(news)
        assert sum(map(len, news)) <= max_records
        self.polls.append(news)
        for each in news:
            self.got.setdefault(each.topic_partition, Got()).add(each)
        return news

    def until(self, condition: Callable[[], bool], *, limit_s: float = LIMIT_S, max_records: int = 100_000) -> None:
        deadline = time.monotonic() + limit_s
        while not condition():
            assert time.monotonic() < deadline, f"not in time; so far {self.got}"
            self.poll(max_records=max_records)

    def until_ends(self, ends: Mapping[tuple[str, int], int], *, limit_s: float = LIMIT_S, **limits: int) -> None:
        """Poll until the reader has said of each topic-partition that its log ends there."""
        self.until(
            lambda: all(self.got.get(each, Got()).end == end for each, end in ends.items()), limit_s=limit_s, **limits
        )


OpenReading = Callable[..., Reading]


def opened(kind: str, bootstrap_servers: str, **settings: Any) -> Reading:
    chosen = ReaderSettings(bootstrap_servers=bootstrap_servers, group="millrace-test-reader", **settings)
    return Reading(OPENERS[kind](chosen))
