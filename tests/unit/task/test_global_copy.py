"""Copies of global stores over a log in memory: positions, ends, what is read again and when."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from millrace.config import StreamsConfig
from millrace.dsl import Consumed, Materialized, StoreBackend, StreamsBuilder
from millrace.errors import (
    BrokerUnavailableError,
    OffsetOutOfRangeError,
    SerializationError,
    StateCorruptedError,
    StateError,
)
from millrace.metrics import DropReason
from millrace.serdes import LongSerde, Serde, StringSerde
from millrace.task.global_copy import GlobalCopies, GlobalCopy
from millrace.task.global_reader import GlobalRows
from millrace.task.input import InputBatch
from millrace.task.spec import GlobalStoreSpec
from millrace.topology.parts import GlobalStore
from tests.damage import flip_middle

TEXT = StringSerde()
HOUR_MS = 3_600_000
Rows = list[tuple[bytes | None, bytes | None]]


@dataclass
class Log:
    """The partitions of a topic; ``None`` stands for a marker or an aborted record."""

    partitions: dict[int, list[tuple[bytes | None, bytes | None] | None]] = field(default_factory=dict)
    begins: dict[int, int] = field(default_factory=dict)
    opened: list[dict[int, int | None]] = field(default_factory=list)
    closed: int = 0
    fails: list[Exception] = field(default_factory=list)
    at_most: int = 1_000

    def open(self, _config: StreamsConfig, _topic: str, starts: Mapping[int, int | None]) -> Reader:
        self.opened.append(dict(starts))
        return Reader(self, {number: self.begins.get(number, 0) if at is None else at for number, at in starts.items()})

    def ends(self) -> dict[tuple[str, int], int]:
        return {("global", number): len(records) for number, records in self.partitions.items()}


class Reader:
    def __init__(self, log: Log, positions: dict[int, int]) -> None:
        self._log = log
        self._positions = positions

    def read(self, ends: Mapping[int, int]) -> GlobalRows:
        if self._log.fails:
            raise self._log.fails.pop(0)
        rows: list[tuple[int, int, bytes | None, bytes | None]] = []
        for number, end in ends.items():
            if self._positions[number] < self._log.begins.get(number, 0):
                raise OffsetOutOfRangeError("gone")
            upto = min(end, self._positions[number] + self._log.at_most)
            for offset in range(self._positions[number], upto):
                record = self._log.partitions[number][offset]
                if record is not None:
                    rows.append((number, offset, *record))
            self._positions[number] = max(upto, self._positions[number])
        return GlobalRows(_batch(rows), dict(self._positions))

    def close(self) -> None:
        self._log.closed += 1


def _batch(rows: list[tuple[int, int, bytes | None, bytes | None]]) -> InputBatch:
    return InputBatch(
        topics=("global",),
        topic=np.zeros(len(rows), dtype=np.int64),
        partition=np.array([row[0] for row in rows], dtype=np.int64),
        offset=np.array([row[1] for row in rows], dtype=np.int64),
        timestamp=np.array([row[1] * 10 for row in rows], dtype=np.int64),
        keys=pa.array([row[2] for row in rows], type=pa.binary()),
        values=pa.array([row[3] for row in rows], type=pa.binary()),
    )


def part_of(value_serde: Serde = TEXT, backend: StoreBackend = StoreBackend.ROCKSDB) -> GlobalStore:
    builder = StreamsBuilder()
    builder.global_table("global", Consumed.with_(TEXT, value_serde), Materialized.as_("rows").with_store_type(backend))
    builder.stream("in").to("out")
    return builder.build().global_stores[0]


def spec(**changes: Any) -> GlobalStoreSpec:
    return replace(GlobalStoreSpec(part=part_of(), topic_id="one", partitions=2), **changes)


def config(directory: Path, **settings: str) -> StreamsConfig:
    return StreamsConfig.from_mapping(
        {
            "application.id": "app",
            "bootstrap.servers": "none:0",
            "state.dir": str(directory),
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )


Open = Callable[..., GlobalCopy]


@pytest.fixture
def log() -> Log:
    return Log({0: [(b"a", b"1"), None, (b"b", b"2"), None], 1: [(b"c", b"3"), (b"a", None), (None, b"4")]})


@pytest.fixture
def open_copy(tmp_path: Path, log: Log) -> Iterator[Open]:
    made: list[GlobalCopy] = []

    def make(settings: dict[str, str] | None = None, **changes: Any) -> GlobalCopy:
        copy = GlobalCopy(spec(**changes), config(tmp_path, **(settings or {})), open_reader=log.open)
        made.append(copy)
        return copy

    yield make
    for copy in made:
        copy.close()


def rows(copy: GlobalCopy) -> dict[bytes, bytes]:
    return {key: value for key, value, _ in copy.store.all()}


def test_a_copy_is_brought_to_the_ends_whatever_stands_there(open_copy: Open, log: Log) -> None:
    """Case S03: both partitions end in what no reader gets."""
    log.partitions[0].append(None)
    copy = open_copy()
    copy.catch_up(log.ends())
    assert rows(copy) == {b"b": b"2", b"c": b"3"}
    assert copy.position.inputs == log.ends()
    assert copy.take_unreported().dropped == {DropReason.NULL_KEY: 1}
    assert not copy.take_unreported()


def test_nothing_behind_the_ends_is_waited_for_and_ends_of_others_do_not_count(open_copy: Open, log: Log) -> None:
    copy = open_copy()
    copy.catch_up({("global", 0): 1, ("global", 1): 0, ("other", 0): 9})
    assert rows(copy) == {b"a": b"1"}
    copy.catch_up({("global", 0): 3, ("global", 1): 1})
    assert rows(copy) == {b"a": b"1", b"b": b"2", b"c": b"3"}
    assert copy.store.get(b"b") == (b"2", 20)
    copy.catch_up({("global", 0): 1, ("global", 1): 1})
    assert copy.position.inputs == {("global", 0): 3, ("global", 1): 1}
    assert log.opened == [{0: None, 1: None}]


def test_a_later_process_goes_on_from_the_position_in_the_directory(open_copy: Open, log: Log) -> None:
    first = open_copy()
    first.catch_up({("global", 0): 3, ("global", 1): 1})
    first.close()
    log.partitions[0].append((b"d", b"5"))
    second = open_copy()
    assert rows(second) == {b"a": b"1", b"b": b"2", b"c": b"3"}
    second.catch_up(log.ends())
    assert rows(second) == {b"b": b"2", b"c": b"3", b"d": b"5"}
    assert log.opened[1] == {0: 3, 1: 1}
    assert second.number == 0


def test_each_process_takes_the_first_free_directory(open_copy: Open, log: Log) -> None:
    first, second, third = open_copy(), open_copy(), open_copy()
    assert [copy.number for copy in (first, second, third)] == [0, 1, 2]
    second.close()
    assert open_copy().number == 1


def test_only_the_first_copy_tells_of_dropped_records(open_copy: Open, log: Log) -> None:
    first, second = open_copy(), open_copy()
    for copy in (second, first):
        copy.catch_up(log.ends())
    assert not second.take_unreported()
    unreported = first.take_unreported()
    assert unreported.dropped == {DropReason.NULL_KEY: 1}
    first.return_unreported(unreported)
    assert first.take_unreported().dropped == {DropReason.NULL_KEY: 1}


@pytest.mark.parametrize(
    "changes",
    [{"topic_id": "two"}, {"part": part_of(LongSerde())}],
    ids=["the topic was created again", "the serde is another"],
)
def test_what_was_made_of_something_else_is_read_anew(changes: Any, open_copy: Open, log: Log) -> None:
    first = open_copy()
    first.catch_up(log.ends())
    first.close()
    log.partitions = {0: [(b"z", b"12345678")], 1: []}
    second = open_copy(**changes)
    assert rows(second) == {}
    second.catch_up(log.ends())
    assert rows(second) == {b"z": b"12345678"}
    assert log.opened[1] == {0: None, 1: None}


def test_a_memory_store_is_read_anew_by_each_process(open_copy: Open, log: Log) -> None:
    part = part_of(backend=StoreBackend.MEMORY)
    first = open_copy(part=part)
    first.catch_up(log.ends())
    assert rows(first) == {b"b": b"2", b"c": b"3"}
    first.close()
    second = open_copy(part=part)
    second.catch_up(log.ends())
    assert rows(second) == {b"b": b"2", b"c": b"3"}
    assert log.opened[1] == {0: None, 1: None}


def test_a_log_that_lost_the_next_offset_is_read_anew_from_its_begin(open_copy: Open, log: Log) -> None:
    copy = open_copy()
    copy.catch_up({("global", 0): 1, ("global", 1): 3})
    log.begins = {0: 2}
    log.partitions[0].append((b"e", b"6"))
    copy.catch_up(log.ends())
    assert rows(copy) == {b"b": b"2", b"c": b"3", b"e": b"6"}
    assert log.opened[1] == {0: None, 1: None}
    assert copy.position.inputs == log.ends()


def test_readers_are_refused_while_reading_anew_has_failed(open_copy: Open, log: Log) -> None:
    copy = open_copy()
    store = copy.store
    copy.catch_up(log.ends())
    log.partitions[0].append((b"e", b"6"))
    log.fails = [OffsetOutOfRangeError("gone"), BrokerUnavailableError("away")]
    with pytest.raises(BrokerUnavailableError):
        copy.catch_up(log.ends())
    with pytest.raises(StateError, match="rows is not complete"):
        store.get(b"b")
    copy.catch_up(log.ends())
    assert store.get(b"e") == (b"6", 40)


def test_a_copy_older_than_tombstones_is_read_anew(open_copy: Open, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    first = open_copy(tombstone_retention_ms=10 * HOUR_MS)
    first.catch_up(log.ends())
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 4 * 3600)
    first.catch_up(log.ends())
    first.close()
    monkeypatch.setattr(time, "time", lambda: now + 8 * 3600)
    second = open_copy(tombstone_retention_ms=10 * HOUR_MS)
    assert rows(second) == {b"b": b"2", b"c": b"3"}
    second.close()
    monkeypatch.setattr(time, "time", lambda: now + 10 * 3600)
    assert rows(open_copy(tombstone_retention_ms=10 * HOUR_MS)) == {}


def test_an_unreadable_record_stops_every_attempt_and_is_skipped_where_the_handler_continues(
    open_copy: Open, log: Log
) -> None:
    part = part_of(LongSerde())
    log.partitions = {0: [(b"a", b"12345678"), (b"a", b"poison"), (b"b", b"87654321")], 1: []}
    strict = open_copy(part=part)
    for _ in range(2):
        with pytest.raises(SerializationError, match="global-0 offset 1"):
            strict.catch_up(log.ends())
    assert strict.position.inputs == {}
    strict.close()
    settings = {
        "deserialization_exception_handler": "continue",
        "errors_dead_letter_queue_topic_name": "dlq",
    }
    lenient = open_copy(settings, part=part)
    lenient.catch_up(log.ends())
    assert rows(lenient) == {b"a": b"12345678", b"b": b"87654321"}
    unreported = lenient.take_unreported()
    assert unreported.dropped == {DropReason.DESERIALIZATION: 1}
    (dead_letters,) = unreported.records
    assert (dead_letters.topic, dead_letters.keys, dead_letters.values, unreported.dead_letters) == (
        "dlq",
        [b"a"],
        [b"poison"],
        1,
    )


def test_a_long_topic_comes_in_parts_and_tells_how_far_it_is(open_copy: Open, log: Log) -> None:
    log.at_most = 1
    told: list[tuple[int, int]] = []
    copy = open_copy()
    copy.catch_up(log.ends(), lambda progress: told.append((progress.position, progress.remaining)))
    assert told == [(2, 5), (4, 3), (6, 1), (7, 0)]
    log.partitions[1].append((b"q", b"1"))
    copy.catch_up(log.ends(), lambda progress: told.append((progress.position, progress.remaining)))
    assert len(told) == 4


def test_a_partition_that_is_added_to_the_topic_is_read_from_its_begin(open_copy: Open, log: Log) -> None:
    copy = open_copy()
    copy.catch_up(log.ends())
    log.partitions[2] = [(b"n", b"7")]
    copy.catch_up(log.ends())
    assert rows(copy) == {b"b": b"2", b"c": b"3", b"n": b"7"}
    assert log.opened == [{0: None, 1: None}, {0: 4, 1: 3, 2: None}]
    copy.catch_up({topic_partition: end for topic_partition, end in log.ends().items() if topic_partition[1] < 2})
    assert log.closed == 1


def test_a_process_has_one_copy_of_a_store_and_another_for_another_topic(tmp_path: Path) -> None:
    copies = GlobalCopies()
    try:
        one = copies.copy(spec(), config(tmp_path))
        assert copies.copy(spec(), config(tmp_path)) is one
        two = copies.copy(spec(topic_id="two"), config(tmp_path))
        assert two is not one
        assert two.number == 0
    finally:
        copies.close()


def test_readers_of_other_threads_see_whole_updates_while_the_copy_is_brought_forward(
    open_copy: Open, log: Log
) -> None:
    keys = [b"a", b"b", b"c"]
    log.partitions = {0: [], 1: []}
    copy = open_copy()
    store = copy.store
    done = threading.Event()
    seen: list[set[bytes | None]] = []

    def look() -> None:
        while not done.is_set():
            seen.append(set(store.get_many(keys)[0]))

    readers = [threading.Thread(target=look) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(150):
        log.partitions[0] += [(key, str(number).encode()) for key in keys]
        copy.catch_up(log.ends())
        assert store.get(b"c") is not None
    done.set()
    for reader in readers:
        reader.join(10)
    assert seen
    assert {len(values) for values in seen} == {1}


def test_a_copy_with_damaged_files_is_read_anew(open_copy: Open, log: Log, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    written = {b"%05d" % number: random.bytes(20).hex().encode() for number in range(5_000)}
    log.partitions = {0: list(written.items()), 1: []}
    log.at_most = 5_000
    for _ in range(2):  # what is in the write-ahead log comes into a table when the database is opened
        copy = open_copy()
        copy.catch_up(log.ends())
        copy.close()
    (directory,) = {path.parent.parent for path in tmp_path.rglob("*.sst")}
    assert flip_middle(directory)
    copy = open_copy()
    with pytest.raises(StateCorruptedError):
        rows(copy)
    assert copy.is_damaged
    copy.catch_up(log.ends())
    assert rows(copy) == written
