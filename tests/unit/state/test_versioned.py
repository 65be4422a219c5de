"""Versioned key-value stores, on each backend, and against a model made of lists."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.errors import StateError
from millrace.state import NOT_PUT, VALID_TO_UNDEFINED, TaskPosition, TaskState, VersionedRecord
from millrace.state.versions import Versions
from tests.unit.state.specs import OpenState, key_value, versioned
from tests.unit.state.test_model import BACKENDS, KEYS, VALUES, StoreUnderTest

RETENTION = 20


def put(state: TaskState, *entries: tuple[bytes, bytes | None, int]) -> list[int]:
    keys, values = [key for key, _, _ in entries], [value for _, value, _ in entries]
    times = [time for _, _, time in entries]
    codes: list[int] = state.versioned_store("ver").put_many(keys, values, np.array(times, dtype=np.int64)).tolist()
    return codes


def commit(state: TaskState) -> list[tuple[bytes, bytes | None, int]]:
    drained = [
        row
        for batch in state.drain_changelog()
        for row in zip(batch.keys, batch.values, batch.timestamps.tolist(), strict=True)
    ]
    state.commit(TaskPosition())
    return drained


def test_a_put_says_until_when_its_version_is_valid(open_state: OpenState) -> None:
    state = open_state(versioned())
    assert put(state, (b"k", b"1", 10), (b"k", b"3", 30), (b"k", b"2", 20), (b"k", b"0", 9)) == [
        VALID_TO_UNDEFINED,
        VALID_TO_UNDEFINED,
        30,
        NOT_PUT,
    ]
    assert state.versioned_store("ver").metrics.expired == 1


def test_a_time_sees_the_version_that_was_valid_then(open_state: OpenState) -> None:
    state = open_state(versioned())
    store = state.versioned_store("ver")
    put(state, (b"k", b"1", 10), (b"k", b"3", 30))
    commit(state)
    put(state, (b"k", b"2", 20), (b"k", None, 25))
    for _ in range(2):
        assert store.get(b"k") == VersionedRecord(b"3", 30, None)
        assert [store.get(b"k", time) for time in (10, 19, 20, 24, 25, 29, 30, 99)] == [
            VersionedRecord(b"1", 10, 20),
            VersionedRecord(b"1", 10, 20),
            VersionedRecord(b"2", 20, 25),
            VersionedRecord(b"2", 20, 25),
            None,
            None,
            VersionedRecord(b"3", 30, None),
            VersionedRecord(b"3", 30, None),
        ]
        commit(state)


def test_history_is_told_as_far_back_as_it_is_retained_and_the_newest_version_for_ever(open_state: OpenState) -> None:
    state = open_state(versioned())
    store = state.versioned_store("ver")
    put(state, (b"k", b"1", 10), (b"k", b"2", 20), (b"old", b"x", 5))
    commit(state)
    put(state, (b"other", b"y", 39))
    assert [store.get(b"k", 18), store.get(b"k", 19)] == [None, VersionedRecord(b"1", 10, 20)]
    put(state, (b"other", b"y", 100_000))
    commit(state)
    assert [store.get(b"k", 19), store.get(b"k", 20)] == [None, VersionedRecord(b"2", 20, None)]
    assert store.get(b"old", 5) == VersionedRecord(b"x", 5, None)
    assert store.versions(b"k", 0, 10**6) == [VersionedRecord(b"2", 20, None)]


def test_versions_of_a_range_are_those_that_are_valid_at_some_time_of_it(open_state: OpenState) -> None:
    state = open_state(versioned(retention_ms=1000))
    put(state, (b"k", b"1", 10), (b"k", b"2", 20), (b"k", None, 30), (b"k", b"4", 40), (b"l", b"x", 15))
    commit(state)
    store = state.versioned_store("ver")
    assert [version.value for version in store.versions(b"k", 15, 20)] == [b"1", b"2"]
    assert [version.value for version in store.versions(b"k", 20, 39)] == [b"2"]
    assert store.versions(b"k", 30, 39) == []
    assert store.versions(b"k", 0, 10**9) == [
        VersionedRecord(b"1", 10, 20),
        VersionedRecord(b"2", 20, 30),
        VersionedRecord(b"4", 40, None),
    ]


def test_a_delete_returns_what_was_valid_and_puts_a_tombstone(open_state: OpenState) -> None:
    state = open_state(versioned())
    store = state.versioned_store("ver")
    put(state, (b"k", b"1", 10), (b"k", b"2", 20))
    assert store.delete(b"k", 15) == VersionedRecord(b"1", 10, 20)
    assert store.delete(b"k", 17) is None
    assert store.delete(b"k", 22) == VersionedRecord(b"2", 20, None)
    assert [store.get(b"k"), store.get(b"k", 14)] == [None, VersionedRecord(b"1", 10, 15)]
    put(state, (b"other", b"x", 100))
    assert store.delete(b"k", 79) is None
    assert store.metrics.expired == 1


def test_the_changelog_has_each_put_in_its_order_also_those_that_came_too_late(open_state: OpenState) -> None:
    state = open_state(versioned())
    put(state, (b"k", b"1", 50), (b"k", b"2", 60), (b"k", None, 55), (b"k", b"late", 39))
    assert commit(state) == [(b"k", b"1", 50), (b"k", b"2", 60), (b"k", None, 55), (b"k", b"late", 39)]


def test_all_gives_the_newest_value_of_each_key(open_state: OpenState) -> None:
    state = open_state(versioned())
    put(state, (b"b", b"1", 10), (b"a", b"2", 11), (b"a", b"3", 9), (b"c", b"4", 12))
    commit(state)
    put(state, (b"c", None, 13), (b"b", b"5", 10))
    assert list(state.versioned_store("ver").all()) == [(b"a", b"2", 11), (b"b", b"5", 10)]


def test_a_rollback_brings_the_history_back(open_state: OpenState) -> None:
    state = open_state(versioned())
    put(state, (b"k", b"1", 10), (b"k", b"2", 20))
    commit(state)
    put(state, (b"k", b"x", 15), (b"k", None, 30), (b"k", b"late", 1))
    state.rollback()
    store = state.versioned_store("ver")
    assert store.versions(b"k", 0, 99) == [VersionedRecord(b"1", 10, 20), VersionedRecord(b"2", 20, None)]
    assert (store.observed_stream_time, store.metrics.expired, state.drain_changelog()) == (20, 0, [])


def test_a_snapshot_stays_as_it_was(open_state: OpenState) -> None:
    state = open_state(versioned())
    store = state.versioned_store("ver")
    put(state, (b"k", b"1", 10), (b"k", b"3", 30))
    commit(state)
    put(state, (b"l", b"1", 15))
    snapshot = store.snapshot([b"k", b"l"])
    put(state, (b"k", b"2", 20), (b"l", b"2", 18), (b"k", b"4", 45))
    replay = snapshot.replay(b"k")
    assert replay.get(25, snapshot.observed_stream_time) == VersionedRecord(b"1", 10, 30)
    replay.put(b"2", 20)
    assert replay.get(25, snapshot.observed_stream_time) == VersionedRecord(b"2", 20, 30)
    assert replay.get(None, snapshot.observed_stream_time) == VersionedRecord(b"3", 30, None)
    assert snapshot.replay(b"l").get(None, 30) == VersionedRecord(b"1", 15, None)
    assert store.get(b"k") == VersionedRecord(b"4", 45, None)


def test_rows_stay_in_their_segments_when_another_interval_is_asked_for(tmp_path: Path) -> None:
    state = TaskState.open(tmp_path, [versioned()])
    put(state, (b"k", b"1", 10), (b"k", b"2", 20), (b"k", b"3", 25))
    commit(state)
    state.close()
    state = TaskState.open(tmp_path, [versioned(segment_interval_ms=1000, retention_ms=500)])
    assert len(state.versioned_store("ver").versions(b"k", 0, 99)) == 3
    put(state, (b"k", b"2a", 22))
    commit(state)
    assert [version.value for version in state.versioned_store("ver").versions(b"k", 0, 99)] == [
        b"1",
        b"2",
        b"2a",
        b"3",
    ]
    state.close()


def test_stores_of_other_kinds_are_refused(open_state: OpenState) -> None:
    state = open_state(versioned(), key_value())
    with pytest.raises(StateError, match="Store kv is a key-value store"):
        state.versioned_store("kv")
    with pytest.raises(StateError, match="Store ver is a versioned store"):
        state.key_value_store("ver")


STEPS = st.one_of(
    st.tuples(st.just("put"), st.lists(st.tuples(KEYS, VALUES, st.integers(0, 60)), min_size=1, max_size=6)),
    st.tuples(st.just("get"), st.lists(st.tuples(KEYS, st.integers(0, 80)), max_size=6)),
    st.tuples(st.sampled_from(["commit", "rollback", "reopen", "drain"]), st.none()),
)


class Model:
    """Every key with all of its versions, in memory."""

    def __init__(self) -> None:
        self.keys: dict[bytes, Versions] = {}
        self.observed = -1

    def copy(self) -> Model:
        copied = Model()
        copied.keys = {key: versions.copy() for key, versions in self.keys.items()}
        copied.observed = self.observed
        return copied

    def put(self, key: bytes, value: bytes | None, time: int) -> int:
        if time < self.observed - RETENTION:
            return NOT_PUT
        self.observed = max(self.observed, time)
        return self.keys.setdefault(key, Versions()).put(value, time)

    def get(self, key: bytes, time: int) -> VersionedRecord | None:
        versions = self.keys.get(key, Versions())
        latest = versions.latest()
        if time < self.observed - RETENTION:
            return latest if latest is not None and latest.timestamp <= time else None
        return versions.as_of(time)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(backend=BACKENDS, interval=st.sampled_from([1, 7, 1000]), steps=st.lists(STEPS, max_size=15))
def test_a_versioned_store_is_a_list_of_versions_for_each_key(
    backend: str, interval: int, steps: list[tuple[str, Any]]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        spec = versioned(retention_ms=RETENTION, segment_interval_ms=interval)
        subject = StoreUnderTest(Path(directory), backend, spec)
        committed, current = Model(), Model()
        for step, argument in steps:
            store = subject.state.versioned_store("ver")
            if step == "put":
                assert put(subject.state, *argument) == [current.put(*entry) for entry in argument]
            elif step == "get":
                assert [store.get(*asked) for asked in argument] == [current.get(*asked) for asked in argument]
                values, times = store.latest_many([key for key, _ in argument])
                latest = [current.keys.get(key, Versions()).latest() for key, _ in argument]
                assert values == [None if version is None else version.value for version in latest]
                assert times.tolist() == [-1 if version is None else version.timestamp for version in latest]
            else:
                getattr(subject, step)()
                if step == "commit":
                    committed = current.copy()
                elif step in {"rollback", "reopen"}:
                    current = committed.copy()
        subject.commit()
        replayed = TaskState.open(None, [spec])
        if subject.changelog:
            keys, contents, stamps = (list(column) for column in zip(*subject.changelog, strict=True))
            replayed.restore_batch("ver", keys, contents, np.array(stamps, dtype=np.int64))
        for store in (subject.state.versioned_store("ver"), replayed.versioned_store("ver")):
            assert store.observed_stream_time == current.observed
            for key in current.keys:
                assert store.get(key) == current.keys[key].latest()
                for time in range(80):
                    assert store.get(key, time) == current.get(key, time)
        subject.state.close()
