"""A store as changelog records: an empty store that takes them is equal to it, whatever its kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.serdes import SessionWindowedSerde, StringSerde, TimeWindowedSerde
from millrace.serdes.subscriptions import CombinedKeySerde, combined_key_prefix
from millrace.state import BufferedRecordContext, TaskPosition, TaskState
from millrace.state.contents import routing_key
from millrace.state.record_file import RecordBatch, read_records, write_records
from millrace.topology.stores import StoreBackend, StoreKind, StoreSpec
from tests.sqlite_store import SqliteStore
from tests.unit.state.specs import OpenState, key_value, versioned, window

JOIN = window("join", retains_duplicates=True)
SESSION = StoreSpec(name="session", kind=StoreKind.SESSION, retention_ms=120_000)
BUFFER = StoreSpec(name="buffer", kind=StoreKind.BUFFER, cached=False)
VERSIONED = versioned("versioned", retention_ms=1_000, segment_interval_ms=300)
MEMORY = key_value("memory", backend=StoreBackend.MEMORY)
LRU = key_value("lru", backend=StoreBackend.MEMORY, capacity=2)
OWN = key_value("own", custom=SqliteStore)
ALL = (key_value(), window(), JOIN, SESSION, BUFFER, VERSIONED, MEMORY, LRU, OWN)


def longs(*numbers: int) -> Any:
    return np.array(numbers, dtype=np.int64)


def filled(state: TaskState) -> TaskState:
    """Every store with rows that were replaced, deleted and expired."""
    for store in ("kv", "memory", "lru", "own"):
        state.key_value_store(store).put_many([b"a", b"b", b"c", b"a"], [b"1", b"2", None, b"3"], longs(1, 2, 3, 4))
        state.key_value_store(store).put_many([b"d", b"b"], [b"", None], longs(5, 6))
    times = longs(0, 60_000, 1_000_000, 1_000_000)
    state.window_store("win").put_many([b"old", b"a", b"a", b"b"], times, [b"1", b"2", b"3", b"4"], times)
    state.join_store("join").put_many([b"old", b"a", b"a", b"b"], [b"1", b"2", b"3", None], times)
    state.session_store("session").put_many(
        [b"old", b"a", b"a"], [0, 900_000, 990_000], [1, 900_005, 1_000_000], [b"1", b"2", b"3"], longs(1, 2, 3)
    )
    buffer = state.suppression_buffer("buffer")
    for key, time in ((b"a", 5), (b"b", 3), (b"c", 9)):
        buffer.put(key, time, None, b"new", BufferedRecordContext(time, 1, "in", 0))
    buffer.pop()
    versions = state.versioned_store("versioned")
    versions.put_many(
        [b"a", b"b", b"a", b"c", b"a", b"b", b"a"],
        [b"1", b"2", b"3", b"4", None, b"5", b"6"],
        longs(10, 5_000, 5_100, 5_200, 5_150, 5_300, 5_250),
    )
    state.drain_changelog()
    state.commit(TaskPosition(inputs={("in", 0): 9}))
    return state


def rows_of(state: TaskState) -> dict[str, Any]:
    found: dict[str, Any] = {name: list(state.key_value_store(name).all()) for name in ("kv", "memory", "lru", "own")}
    found["win"] = list(state.window_store("win").all())
    found["join"] = [list(state.join_store("join").all())]
    found["session"] = list(state.session_store("session").all())
    found["buffer"] = list(state.suppression_buffer("buffer").all())
    versions = state.versioned_store("versioned")
    found["versioned"] = [versions.versions(key, 0, 10_000) for key in (b"a", b"b", b"c")] + list(versions.all())
    return found


def taken(state: TaskState, store: str, batches: Iterator[RecordBatch]) -> None:
    for batch in batches:
        keys = [key for key in batch.keys if key is not None]
        assert len(keys) == len(batch.keys)
        state.restore_batch(store, keys, list(batch.values), batch.timestamps, batch.headers)


def test_an_empty_store_that_takes_the_records_is_equal(open_state: OpenState, tmp_path: Path) -> None:
    state = filled(open_state(*ALL))
    copy = TaskState.open(tmp_path / "copy", ALL)
    for store in ALL:
        taken(copy, store.name, state.records(store.name))
    assert rows_of(copy) == rows_of(state)
    # The least recently used key is the same, and no later entry of the join takes the place of an earlier one.
    for each in (state, copy):
        each.key_value_store("lru").put_many([b"e"], [b"5"], longs(7))
        each.join_store("join").put_many([b"a"], [b"later"], longs(1_000_000))
        each.drain_changelog()
        each.commit(TaskPosition())
    assert rows_of(copy) == rows_of(state)
    copy.close()


def test_a_checkpoint_stays_as_it_was_and_can_be_opened(tmp_path: Path) -> None:
    state = filled(TaskState.open(tmp_path / "0_0", ALL))
    before = rows_of(state)
    state.checkpoint(tmp_path / "checkpoint")
    state.key_value_store("kv").put_many([b"a"], [b"changed"], longs(9))
    state.drain_changelog()
    state.commit(TaskPosition(inputs={("in", 0): 10}))
    state.close()

    in_database = [store for store in ALL if store.custom is None and store.backend is StoreBackend.ROCKSDB]
    kept = TaskState.open(tmp_path / "checkpoint", in_database)
    assert dict(kept.position.inputs) == {("in", 0): 9}
    assert list(kept.key_value_store("kv").all()) == before["kv"]
    kept.close()
    copy = TaskState.open(tmp_path / "copy", ALL)
    for name in ("memory", "lru", "own"):
        taken(copy, name, read_records(tmp_path / "checkpoint" / f"{name}.records"))
        assert list(copy.key_value_store(name).all()) == before[name]
    copy.close()


PUTS = st.lists(
    st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.none() | st.binary(max_size=2), st.integers(0, 4_000)),
    min_size=1,
    max_size=25,
)


@settings(max_examples=150)
@given(puts=PUTS, commits=st.sets(st.integers(0, 25)))
def test_every_history_comes_back(puts: list[tuple[bytes, bytes | None, int]], commits: set[int]) -> None:
    state, copy = TaskState.open(None, [VERSIONED]), TaskState.open(None, [VERSIONED])
    for index, (key, value, timestamp) in enumerate(puts):
        state.versioned_store("versioned").put_many([key], [value], longs(timestamp))
        if index in commits or index == len(puts) - 1:
            state.drain_changelog()
            state.commit(TaskPosition())
    taken(copy, "versioned", state.records("versioned"))
    ours, theirs = state.versioned_store("versioned"), copy.versioned_store("versioned")
    assert list(theirs.all()) == list(ours.all())
    newest = max(timestamp for _, _, timestamp in puts)
    for key in (b"a", b"b", b"c"):
        assert theirs.versions(key, newest - 1_000, newest) == ours.versions(key, newest - 1_000, newest)


@pytest.mark.parametrize("headers", [None, [[("h", b"1"), ("h", None)], None, []]])
def test_records_survive_a_file(tmp_path: Path, headers: Any) -> None:
    batch = RecordBatch(keys=[b"a", None, b""], values=[None, b"", b"x"], timestamps=longs(-1, 0, 1), headers=headers)
    assert write_records(tmp_path / "file", [batch, batch]) == 6
    first, second = read_records(tmp_path / "file")
    for read in (first, second):
        assert (read.keys, read.values, read.headers) == (batch.keys, batch.values, headers)
        assert read.timestamps.tolist() == [-1, 0, 1]


@pytest.mark.parametrize(
    ("store", "row"),
    [
        (key_value(key_serde=StringSerde()), b"key"),
        (window(key_serde=StringSerde()), b"key" + bytes(12)),
        (JOIN, b"key" + bytes(12)),
        (SESSION, b"key" + bytes(16)),
        (VERSIONED, b"key"),
        (StoreSpec(name="b", kind=StoreKind.BUFFER, key_serde=TimeWindowedSerde(StringSerde(), 10)), b"key" + bytes(8)),
        (StoreSpec(name="b", kind=StoreKind.BUFFER, key_serde=SessionWindowedSerde(StringSerde())), b"key" + bytes(16)),
        (key_value(key_serde=CombinedKeySerde(None, None)), combined_key_prefix(b"key") + b"primary"),
    ],
)
def test_rows_are_placed_by_the_key_of_their_records(store: StoreSpec, row: bytes) -> None:
    assert routing_key(store, row) == b"key"
