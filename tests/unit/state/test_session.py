"""The session store against a model made of dictionaries, over random sequences of operations."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.state import TaskPosition, TaskState
from millrace.topology.stores import StoreKind, StoreSpec
from tests.unit.state.specs import OpenState
from tests.unit.state.test_model import BACKENDS, KEYS, TIMES, StoreUnderTest

MINUTE = 60_000
RETENTION = 3 * MINUTE
VALUES = st.one_of(st.none(), st.none(), st.binary(max_size=3))
BOUNDS = st.integers(0, 12).map(lambda number: number * 45_000)
STEPS = st.one_of(
    st.tuples(st.just("put"), st.lists(st.tuples(KEYS, BOUNDS, BOUNDS, VALUES, TIMES), min_size=1, max_size=6)),
    st.tuples(st.just("find"), st.tuples(KEYS, BOUNDS, BOUNDS)),
    st.tuples(st.just("fetch"), st.tuples(KEYS, BOUNDS, BOUNDS)),
    st.tuples(st.just("ended"), st.tuples(BOUNDS, BOUNDS)),
    st.tuples(st.sampled_from(["commit", "rollback", "reopen", "drain"]), st.none()),
)
Entries = dict[tuple[bytes, int, int], tuple[bytes, int]]


def session(name: str = "sessions", *, retention_ms: int = RETENTION, **fields: Any) -> StoreSpec:
    return StoreSpec(name=name, kind=StoreKind.SESSION, retention_ms=retention_ms, **fields)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(backend=BACKENDS, cached=st.booleans(), steps=st.lists(STEPS, max_size=15))
def test_a_session_store_is_a_dictionary_that_forgets_what_is_past_its_retention(
    backend: str, cached: bool, steps: list[tuple[str, Any]]
) -> None:
    interval = max(RETENTION // 2, MINUTE)
    with tempfile.TemporaryDirectory() as directory:
        subject = StoreUnderTest(Path(directory), backend, session(cached=cached))
        committed: tuple[Entries, int] = ({}, -1)
        current: Entries = {}
        observed = -1

        def readable(first_end: int, last_end: int) -> list[tuple[bytes, int, int, bytes, int]]:
            rows = [
                (key, start, end, *entry)
                for (key, end, start), entry in current.items()
                if end > observed - RETENTION and first_end <= end <= last_end
            ]
            # As the bytes are in the database: of two keys, one of which begins the other, the end may decide.
            return sorted(
                rows,
                key=lambda row: (row[2] // interval, row[0] + row[2].to_bytes(8, "big") + row[1].to_bytes(8, "big")),
            )

        for step, argument in steps:
            store = subject.state.session_store("sessions")
            if step == "put":
                keys, one, other, values, times = (list(column) for column in zip(*argument, strict=True))
                starts, ends = list(map(min, one, other)), list(map(max, one, other))
                store.put_many(keys, starts, ends, values, np.array(times, dtype=np.int64))
                for key, start, end, value, timestamp in zip(keys, starts, ends, values, times, strict=True):
                    observed = max(observed, end)
                    if end // interval >= max(observed - RETENTION, 0) // interval:
                        current.pop((key, end, start), None)
                        if value is not None:
                            current[key, end, start] = (value, timestamp)
            elif step == "find":
                key, first_end, last_start = argument
                found = [(key, *entry) for entry in store.find_sessions(key, first_end, last_start)]
                assert found == sorted(
                    (row for row in readable(first_end, 2**62) if row[0] == key and row[1] <= last_start),
                    key=lambda row: (row[2], row[1]),
                )
            elif step == "fetch":
                key, start, end = argument
                expected = current.get((key, end, start)) if end > observed - RETENTION else None
                assert store.fetch_session(key, start, end) == expected
            elif step == "ended":
                assert [(key, *entry) for key, entry in store.find_ended(*argument)] == readable(*argument)
            else:
                getattr(subject, step)()
                if step == "commit":
                    committed = (dict(current), observed)
                elif step in {"rollback", "reopen"}:
                    current, observed = dict(committed[0]), committed[1]
        subject.commit()
        store = subject.state.session_store("sessions")
        everything = [(key, *entry) for key, entry in store.all()]
        assert everything == readable(0, 2**62)

        replayed = TaskState.open(None, [session()])
        if subject.changelog:
            keys, values, times = (list(column) for column in zip(*subject.changelog, strict=True))
            replayed.restore_batch("sessions", keys, values, np.array(times, dtype=np.int64))
        again = [(key, *entry) for key, entry in replayed.session_store("sessions").all()]
        assert [row for row in again if row[2] > observed - RETENTION] == everything
        subject.state.close()


def test_a_session_that_comes_and_goes_between_drains_of_a_cached_store_is_not_logged(open_state: OpenState) -> None:
    state = open_state(session())
    store = state.session_store("sessions")
    store.put_many([b"k"] * 3, [0, 0, 0], [0, 0, 5], [b"1", None, b"2"], np.array([0, 5, 5]))
    (logged,) = state.drain_changelog()
    assert (logged.values, logged.timestamps.tolist()) == ([b"2"], [5])
    assert logged.keys == [b"k" + (5).to_bytes(8, "big") + (0).to_bytes(8, "big")]

    store.put_many([b"k"] * 4, [0, 0, 0, 0], [5, 7, 7, 9], [None, b"3", None, b"4"], np.array([7, 7, 9, 9]))
    (logged,) = state.drain_changelog()
    assert (logged.values, logged.timestamps.tolist()) == ([None, b"4"], [7, 9])
    state.commit(TaskPosition())
    assert [(at.start, at.end, at.value) for _, at in store.all()] == [(0, 9, b"4")]


def test_every_write_of_a_session_store_without_cache_is_logged(open_state: OpenState) -> None:
    state = open_state(session(cached=False))
    store = state.session_store("sessions")
    store.put_many([b"k"] * 3, [0, 0, 0], [0, 0, 5], [b"1", None, b"2"], np.array([0, 5, 5]))
    (logged,) = state.drain_changelog()
    assert (logged.values, logged.timestamps.tolist()) == ([b"1", None, b"2"], [0, 5, 5])
