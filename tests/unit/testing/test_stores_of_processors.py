"""Every builder, in every place, used by a processor: its methods, its changelog, and what is restored from that."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from millrace.dsl import (
    Processor,
    Record,
    RocksDBOptions,
    StoreBuilder,
    Stores,
    Topology,
    ValueAndTimestamp,
    VersionedRecord,
)
from millrace.errors import ProcessingError, TopologyError
from millrace.metrics import DropReason
from millrace.serdes import LongSerde, StringSerde, Windowed
from millrace.state import TaskPosition, TaskState
from millrace.testing import TestRecord, TopologyTestDriver
from millrace.testing.topics import RawRecord
from tests.sqlite_store import SqliteStore

S, L = StringSerde(), LongSerde()
DAY = 86_400_000
NOT_PUT, NEWEST = -(2**63), -1
CHANGELOG = "topology-test-driver-store-changelog"
Use = Callable[[Any], Any]
"""What a processor does with its store, and what it gets."""


def _at(value: int, timestamp: int) -> ValueAndTimestamp[int]:
    return ValueAndTimestamp(value, timestamp)


def _long(value: int) -> bytes:
    return struct.pack(">q", value)


class Using(Processor[str, int]):
    """Does one thing with its store for each record."""

    uses: Sequence[tuple[Use, Any]] = ()
    results: list[Any]

    def process(self, record: Record[str, int], /) -> None:
        use, _ = self.uses[record.value]
        found = use(self.context.get_state_store("store"))
        self.results.append(list(found) if hasattr(found, "__next__") else found)


@dataclass(frozen=True)
class Kind:
    """One builder.

    Args:
        places: suppliers of its stores by their place.
        builder: makes the store of a supplier.
        uses: what is done with the store, one after the other, and what that gives.
        reads: what is asked of it afterwards, and after a restoration.
        changelog: the records of its changelog without a cache: key, value, timestamp.
    """

    places: dict[str, Callable[[], Any]]
    builder: Callable[[Any, Any, Any], StoreBuilder]
    uses: list[tuple[Use, Any]]
    reads: list[tuple[Use, Any]]
    changelog: list[tuple[bytes, bytes | None, int]]


KEY_VALUE_PLACES: dict[str, Callable[[], Any]] = {
    "disk": lambda: Stores.persistent_key_value_store("store"),
    "timestamped, disk": lambda: Stores.persistent_timestamped_key_value_store("store"),
    "memory": lambda: Stores.in_memory_key_value_store("store"),
    "map": lambda: Stores.lru_map("store", 100),
    "own": lambda: Stores.custom_key_value_store("store", SqliteStore),
}
WINDOW_PLACES: dict[str, Callable[[], Any]] = {
    "disk": lambda: Stores.persistent_window_store("store", DAY, 10),
    "timestamped, disk": lambda: Stores.persistent_timestamped_window_store("store", DAY, 10),
    "memory": lambda: Stores.in_memory_window_store("store", DAY, 10),
    "own": lambda: Stores.custom_window_store("store", DAY, 10, SqliteStore),
}
SESSION_PLACES: dict[str, Callable[[], Any]] = {
    "disk": lambda: Stores.persistent_session_store("store", DAY),
    "memory": lambda: Stores.in_memory_session_store("store", DAY),
    "own": lambda: Stores.custom_session_store("store", DAY, SqliteStore),
}
VERSIONED_PLACES: dict[str, Callable[[], Any]] = {
    "disk": lambda: Stores.persistent_versioned_key_value_store("store", 100, 40),
    "disk, its own segments": lambda: Stores.persistent_versioned_key_value_store("store", 100),
    "memory": lambda: Stores.in_memory_versioned_key_value_store("store", 100, 40),
}


def _entry(key: str, start: int) -> bytes:
    return key.encode() + struct.pack(">qi", start, 0)


def _session(key: str, start: int, end: int) -> bytes:
    return key.encode() + struct.pack(">qq", end, start)


# The record of number n has the timestamp 10 * n, which a plain value is kept with.
KINDS: dict[str, Kind] = {
    "key-value": Kind(
        places=KEY_VALUE_PLACES,
        builder=Stores.key_value_store_builder,
        uses=[
            (lambda store: store.put("b", 1), None),
            (lambda store: store.get("b"), 1),
            (lambda store: store.put_if_absent("b", 5), 1),
            (lambda store: store.put_if_absent("a", 6), None),
            (lambda store: store.put_all([("ab", 3), ("c", 4)]), None),
            (lambda store: store.delete("c"), 4),
            (lambda store: store.delete("never"), None),
            (lambda store: store.name, "store"),
        ],
        reads=[
            (lambda store: store.all(), [("a", 6), ("ab", 3), ("b", 1)]),
            (lambda store: store.reverse_all(), [("b", 1), ("ab", 3), ("a", 6)]),
            (lambda store: store.range("a", "ab"), [("a", 6), ("ab", 3)]),
            (lambda store: store.reverse_range("ab", None), [("b", 1), ("ab", 3)]),
            (lambda store: store.range("b", "a"), []),
            (lambda store: store.prefix_scan("a"), [("a", 6), ("ab", 3)]),
            (lambda store: store.prefix_scan("b", S), [("b", 1)]),
            (lambda store: store.get("c"), None),
        ],
        changelog=[
            (b"b", _long(1), 0),
            (b"a", _long(6), 30),
            (b"ab", _long(3), 40),
            (b"c", _long(4), 40),
            (b"c", None, 50),
            (b"never", None, 60),
        ],
    ),
    "timestamped key-value": Kind(
        places=KEY_VALUE_PLACES,
        builder=Stores.timestamped_key_value_store_builder,
        uses=[
            (lambda store: store.put("b", _at(1, 7)), None),
            (lambda store: store.get("b"), _at(1, 7)),
            (lambda store: store.put_if_absent("b", _at(5, 8)), _at(1, 7)),
            (lambda store: store.put_if_absent("a", _at(6, 9)), None),
            (lambda store: store.put_all([("ab", _at(3, 1)), ("c", _at(4, 2))]), None),
            (lambda store: store.delete("c"), _at(4, 2)),
        ],
        reads=[
            (lambda store: store.all(), [("a", _at(6, 9)), ("ab", _at(3, 1)), ("b", _at(1, 7))]),
            (lambda store: store.reverse_range(None, "ab"), [("ab", _at(3, 1)), ("a", _at(6, 9))]),
            (lambda store: store.prefix_scan("a"), [("a", _at(6, 9)), ("ab", _at(3, 1))]),
        ],
        changelog=[
            (b"b", _long(1), 7),
            (b"a", _long(6), 9),
            (b"ab", _long(3), 1),
            (b"c", _long(4), 2),
            (b"c", None, 50),
        ],
    ),
    "window": Kind(
        places=WINDOW_PLACES,
        builder=Stores.window_store_builder,
        uses=[
            (lambda store: store.put("a", 1, 0), None),
            (lambda store: store.put("a", 2, 10), None),
            (lambda store: store.put("b", 3, 20), None),
            (lambda store: store.put("b", 4, 30), None),
            (lambda store: store.put("b", None, 30), None),
        ],
        reads=[
            (lambda store: store.fetch("a", 10), 2),
            (lambda store: store.fetch("a", 5), None),
            (lambda store: store.fetch("a", -50, 10), [(0, 1), (10, 2)]),
            (lambda store: store.backward_fetch("a", 0, 10), [(10, 2), (0, 1)]),
            (lambda store: store.fetch_range("a", "a", 10, 99), [(Windowed("a", 10, 20), 2)]),
            (lambda store: store.fetch_range(None, None, 10, 20), [(("a", 10, 20), 2), (("b", 20, 30), 3)]),
            (lambda store: store.fetch_all(0, 9), [(Windowed("a", 0, 10), 1)]),
            (lambda store: store.all(), [(("a", 0, 10), 1), (("a", 10, 20), 2), (("b", 20, 30), 3)]),
        ],
        changelog=[
            (_entry("a", 0), _long(1), 0),
            (_entry("a", 10), _long(2), 10),
            (_entry("b", 20), _long(3), 20),
            (_entry("b", 30), _long(4), 30),
            (_entry("b", 30), None, 40),
        ],
    ),
    "timestamped window": Kind(
        places=WINDOW_PLACES,
        builder=Stores.timestamped_window_store_builder,
        uses=[
            (lambda store: store.put("a", _at(1, 5), 0), None),
            (lambda store: store.put("a", _at(2, 15), 10), None),
        ],
        reads=[
            (lambda store: store.fetch("a", 10), _at(2, 15)),
            (lambda store: store.fetch("a", 0, 10), [(0, _at(1, 5)), (10, _at(2, 15))]),
            (lambda store: store.all(), [(("a", 0, 10), _at(1, 5)), (("a", 10, 20), _at(2, 15))]),
        ],
        changelog=[(_entry("a", 0), _long(1), 5), (_entry("a", 10), _long(2), 15)],
    ),
    "session": Kind(
        places=SESSION_PLACES,
        builder=Stores.session_store_builder,
        uses=[
            (lambda store: store.put(Windowed("a", 0, 5), 1), None),
            (lambda store: store.put(Windowed("a", 20, 25), 2), None),
            (lambda store: store.put(Windowed("b", 7, 7), 3), None),
            (lambda store: store.put(Windowed("b", 9, 9), 4), None),
            (lambda store: store.remove(Windowed("b", 9, 9)), None),
        ],
        reads=[
            (lambda store: store.fetch("a"), [(("a", 0, 5), 1), (("a", 20, 25), 2)]),
            (lambda store: store.backward_fetch("a"), [(("a", 20, 25), 2), (("a", 0, 5), 1)]),
            (lambda store: store.fetch_session("a", 20, 25), 2),
            (lambda store: store.fetch_session("a", 20, 24), None),
            (lambda store: store.find_sessions("a", 6, 30), [(("a", 20, 25), 2)]),
            (lambda store: store.fetch("b"), [(("b", 7, 7), 3)]),
        ],
        changelog=[
            (_session("a", 0, 5), _long(1), 0),
            (_session("a", 20, 25), _long(2), 10),
            (_session("b", 7, 7), _long(3), 20),
            (_session("b", 9, 9), _long(4), 30),
            (_session("b", 9, 9), None, 40),
        ],
    ),
    "versioned": Kind(
        places=VERSIONED_PLACES,
        builder=Stores.versioned_key_value_store_builder,
        uses=[
            (lambda store: store.put("a", 1, 200), NEWEST),
            (lambda store: store.put("a", 2, 260), NEWEST),
            (lambda store: store.put("a", 3, 230), 260),
            (lambda store: store.get("a"), VersionedRecord(2, 260, None)),
            (lambda store: store.put("b", 9, 260), NEWEST),
            (lambda store: store.delete("b", 270), VersionedRecord(9, 260, None)),
            (lambda store: store.put("a", None, 240), 260),
            (lambda store: store.put("late", 4, 169), NOT_PUT),
            (lambda store: store.delete("late", 169), None),
        ],
        reads=[
            (lambda store: store.get("a"), VersionedRecord(2, 260, None)),
            (lambda store: store.get("a", 259), None),
            (lambda store: store.get("a", 239), VersionedRecord(3, 230, 240)),
            (lambda store: store.get("a", 229), VersionedRecord(1, 200, 230)),
            (lambda store: store.get("b"), None),
            (lambda store: store.get("b", 265), VersionedRecord(9, 260, 270)),
            (
                lambda store: store.versions("a", 0, 300),
                [VersionedRecord(1, 200, 230), VersionedRecord(3, 230, 240), VersionedRecord(2, 260, None)],
            ),
            (lambda store: store.get("late"), None),
            (lambda store: store.name, "store"),
        ],
        changelog=[
            (b"a", _long(1), 200),
            (b"a", _long(2), 260),
            (b"a", _long(3), 230),
            (b"b", _long(9), 260),
            (b"b", None, 270),
            (b"a", None, 240),
            # As in Kafka Streams the changelog has what the store did not take.
            (b"late", _long(4), 169),
            (b"late", None, 169),
        ],
    ),
}
PLACES = [(kind, place) for kind, each in KINDS.items() for place in each.places]


def _made(kind: str, place: str) -> StoreBuilder:
    return KINDS[kind].builder(KINDS[kind].places[place](), S, L)


def _topology(builder: StoreBuilder, uses: list[tuple[Use, Any]], results: list[Any]) -> Topology:
    class Here(Using):
        def __init__(self) -> None:
            self.uses, self.results = uses, results

    topology = Topology().add_source("source", "in", key_serde=S, value_serde=L)
    return topology.add_processor("process", Here, "source").add_state_store(builder, "process")


def _use(
    builder: StoreBuilder, uses: list[tuple[Use, Any]], directory: Path | None = None, *, in_one_batch: bool = False
) -> tuple[list[Any], list[RawRecord], int]:
    """What a processor gets of its store, what the changelog gets, and how many writes were dropped."""
    results: list[Any] = []
    with TopologyTestDriver(_topology(builder, uses, results), state_directory=directory) as driver:
        records = [TestRecord("key", number, 10 * number) for number in range(len(uses))]
        for batch in [records] if in_one_batch else [[record] for record in records]:
            driver.create_input_topic("in", S, L).pipe_batch(batch)
        return results, driver.changelogs[CHANGELOG], driver.dropped[DropReason.EXPIRED_WINDOW]


@pytest.mark.parametrize("in_one_batch", [False, True], ids=["record by record", "in one batch"])
@pytest.mark.parametrize("logged", [True, False], ids=["logged", "not logged"])
@pytest.mark.parametrize(("kind", "place"), PLACES)
def test_a_processor_reads_what_it_wrote(
    kind: str, place: str, logged: bool, in_one_batch: bool, tmp_path: Path
) -> None:
    each = KINDS[kind]
    builder = _made(kind, place)
    builder = builder.with_logging_enabled({"segment.ms": "1000"}) if logged else builder.with_logging_disabled()
    uses = [*each.uses, *each.reads]
    results, changelog, dropped = _use(builder, uses, tmp_path, in_one_batch=in_one_batch)
    assert results == [expected for _, expected in uses]
    assert [(record.key, record.value, record.timestamp) for record in changelog] == (each.changelog if logged else [])
    assert dropped == (2 if kind == "versioned" else 0)


@pytest.mark.parametrize(("kind", "place"), PLACES)
def test_a_cached_store_logs_the_last_write_of_each_key(kind: str, place: str, tmp_path: Path) -> None:
    each = KINDS[kind]
    results, changelog, _ = _use(_made(kind, place).with_caching_enabled(), each.uses, tmp_path, in_one_batch=True)
    assert results == [expected for _, expected in each.uses]
    logged = [(record.key, record.value, record.timestamp) for record in changelog]
    if kind == "versioned":  # which is never cached
        assert logged == each.changelog
        return
    last = {record[0]: record for record in each.changelog}
    if kind == "session":  # of which one that came and went in between leaves nothing
        last = {key: record for key, record in last.items() if record[1] is not None}
    assert sorted(logged) == sorted(last.values())
    assert _made(kind, place).with_caching_enabled().with_caching_disabled() == _made(kind, place)


def _restored(kind: str, place: str, directory: Path) -> None:
    """Makes the store of a task from the bytes that Kafka Streams writes to the changelog of such a store."""
    each = KINDS[kind]
    state = TaskState.open(directory / "0_0", [_made(kind, place).spec])
    # In two batches, as a restoration does.
    for some in (each.changelog[:3], each.changelog[3:]):
        keys, values, timestamps = [key for key, _, _ in some], [value for _, value, _ in some], [at for *_, at in some]
        state.restore_batch("store", keys, values, np.array(timestamps, dtype=np.int64))
    state.commit(TaskPosition(changelogs={"store": len(each.changelog)}))
    state.close()


@pytest.mark.parametrize(("kind", "place"), [each for each in PLACES if "disk" in each[1] or each[1] == "own"])
def test_a_processor_reads_what_was_taken_over_from_a_changelog(kind: str, place: str, tmp_path: Path) -> None:
    _restored(kind, place, tmp_path)
    builder = _made(kind, place).with_rocksdb_options(RocksDBOptions(block_bytes=8_192))
    results, changelog, _ = _use(builder, KINDS[kind].reads, tmp_path)
    assert results == [expected for _, expected in KINDS[kind].reads]
    assert changelog == []


def test_what_is_late_by_a_taken_over_history_is_not_put(tmp_path: Path) -> None:
    _restored("versioned", "disk", tmp_path)
    uses: list[tuple[Use, Any]] = [
        (lambda store: store.put("a", 5, 169), NOT_PUT),
        (lambda store: store.put("a", 5, 170), 200),
        (lambda store: store.get("a", 199), VersionedRecord(5, 170, 200)),
    ]
    results, changelog, dropped = _use(_made("versioned", "disk"), uses, tmp_path)
    assert results == [expected for _, expected in uses]
    assert [record.timestamp for record in changelog] == [169, 170]
    assert dropped == 1


@pytest.mark.parametrize("place", KEY_VALUE_PLACES)
def test_a_key_value_store_knows_about_how_many_keys_it_has(place: str, tmp_path: Path) -> None:
    uses: list[tuple[Use, Any]] = [
        (lambda store: store.approximate_num_entries(), 0),
        (lambda store: store.put_all([("a", 1), ("b", 2), ("c", 3)]), None),
        (lambda store: store.approximate_num_entries(), 3),
    ]
    for in_one_batch in (True, False):
        results, _, _ = _use(_made("key-value", place), uses, tmp_path / str(in_one_batch), in_one_batch=in_one_batch)
        assert results == [0, None, 3]


@pytest.mark.parametrize(
    ("kind", "use", "problem"),
    [
        ("timestamped key-value", lambda store: store.put("a", 1), "is timestamped, and was given int"),
        ("timestamped key-value", lambda store: store.put("a", _at(1, -1)), "given the timestamp -1"),
        ("timestamped window", lambda store: store.put("a", _at(1, -7), 0), "given the timestamp -7"),
        ("window", lambda store: store.put("a", 1, -10), "given the window start -10"),
        ("session", lambda store: store.put(Windowed("a", -3, 5), 1), "given the session start -3"),
        ("session", lambda store: store.put(Windowed("a", 5, 3), 1), "ends at 3, before its start 5"),
        ("versioned", lambda store: store.put("a", 1, -1), "given the timestamp -1"),
        ("versioned", lambda store: store.put("a", 1, 1.5), r"given the timestamp 1\.5"),
        ("versioned", lambda store: store.delete("a", -1), "given the timestamp -1"),
        ("versioned", lambda store: store.put(None, 1, 1), "asked for the key None"),
    ],
)
def test_a_write_that_no_changelog_could_hold_is_refused(kind: str, use: Use, problem: str) -> None:
    with pytest.raises(ProcessingError, match=f"Store store .*{problem}|{problem}"):
        _use(_made(kind, next(iter(KINDS[kind].places))), [(use, None)])


def test_a_versioned_store_cannot_be_global() -> None:
    builder = _made("versioned", "disk").with_logging_disabled()
    with pytest.raises(TopologyError, match="store"):
        Topology().add_global_store(builder, "source", "in", "process", Using, key_serde=S, value_serde=L)
