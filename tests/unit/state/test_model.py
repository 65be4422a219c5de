"""Both backends against a model made of dictionaries, over random sequences of operations."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.state import StateOptions, TaskPosition, TaskState
from tests.sqlite_store import SqliteStore
from tests.unit.state.specs import key_value, window

MINUTE = 60_000
RETENTION = 3 * MINUTE
KEYS = st.sampled_from([b"", b"a", b"a\0", b"ab", b"b", b"\xff"])
VALUES = st.one_of(st.none(), st.binary(max_size=3))
TIMES = st.integers(0, 2**40)
STARTS = st.integers(0, 12).map(lambda number: number * 45_000)

KEY_VALUE_STEPS = st.one_of(
    st.tuples(st.just("put"), st.lists(st.tuples(KEYS, VALUES, TIMES), min_size=1, max_size=6)),
    st.tuples(st.just("get"), st.lists(KEYS, max_size=6)),
    st.tuples(st.just("range"), st.tuples(st.one_of(st.none(), KEYS), st.one_of(st.none(), KEYS))),
    st.tuples(st.sampled_from(["commit", "rollback", "reopen", "drain"]), st.none()),
)
WINDOW_STEPS = st.one_of(
    st.tuples(st.just("put"), st.lists(st.tuples(KEYS, STARTS, VALUES, TIMES), min_size=1, max_size=6)),
    st.tuples(st.just("fetch"), st.lists(st.tuples(KEYS, STARTS), max_size=6)),
    st.tuples(st.just("range"), st.tuples(KEYS, STARTS, STARTS)),
    st.tuples(st.sampled_from(["commit", "rollback", "reopen", "drain"]), st.none()),
)
BACKENDS = st.sampled_from(["rocksdb", "small cache", "no cache", "memory", "user's own"])
CACHE_BYTES = {"rocksdb": 1 << 20, "small cache": 900, "no cache": 0, "memory": 0, "user's own": 900}


class StoreUnderTest:
    """A state that is committed, rolled back and opened again, and the changelog that it drained."""

    def __init__(self, directory: Path, backend: str, spec: Any) -> None:
        self._directory = None if backend == "memory" else directory
        self._options = StateOptions(read_cache_bytes=CACHE_BYTES[backend])
        self._spec = replace(spec, custom=SqliteStore) if backend == "user's own" else spec
        self.state = TaskState.open(self._directory, [self._spec], options=self._options)
        self.commits = 0
        self.changelog: list[tuple[bytes, bytes | None, int]] = []
        self._undrained: list[tuple[bytes, bytes | None, int]] = []

    def drain(self) -> None:
        for batch in self.state.drain_changelog():
            self._undrained += zip(batch.keys, batch.values, batch.timestamps.tolist(), strict=True)

    def commit(self) -> None:
        self.drain()
        self.commits += 1
        self.state.commit(TaskPosition(inputs={("in", 0): self.commits}))
        self.changelog += self._undrained
        self._undrained = []

    def rollback(self) -> None:
        self.state.rollback()
        self._undrained = []

    def reopen(self) -> None:
        self._undrained = []
        if self._directory is None:
            self.state.rollback()
            return
        self.state.close()
        self.state = TaskState.open(self._directory, [self._spec], options=self._options)
        assert self.state.position.inputs.get(("in", 0), 0) == self.commits


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(backend=BACKENDS, steps=st.lists(KEY_VALUE_STEPS, max_size=15))
def test_a_key_value_store_is_a_sorted_dictionary(backend: str, steps: list[tuple[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        subject = StoreUnderTest(Path(directory), backend, key_value())
        committed: dict[bytes, tuple[bytes, int]] = {}
        current = dict(committed)
        for step, argument in steps:
            store = subject.state.key_value_store("kv")
            if step == "put":
                keys, values, times = (list(column) for column in zip(*argument, strict=True))
                store.put_many(keys, values, np.array(times, dtype=np.int64))
                for key, value, timestamp in argument:
                    current.pop(key, None)
                    if value is not None:
                        current[key] = (value, timestamp)
            elif step == "get":
                values, timestamps = store.get_many(argument)
                expected = [current.get(key, (None, -1)) for key in argument]
                assert list(zip(values, timestamps.tolist(), strict=True)) == expected
            elif step == "range":
                first, last = argument
                found = [(key, (value, timestamp)) for key, value, timestamp in store.range(first, last)]
                assert found == [
                    (key, entry)
                    for key, entry in sorted(current.items())
                    if (first is None or key >= first) and (last is None or key <= last)
                ]
            else:
                getattr(subject, step)()
                if step == "commit":
                    committed = dict(current)
                elif step in {"rollback", "reopen"}:
                    current = dict(committed)
        subject.commit()
        restored: dict[bytes, tuple[bytes, int]] = {}
        for key, value, timestamp in subject.changelog:
            restored.pop(key, None)
            if value is not None:
                restored[key] = (value, timestamp)
        assert restored == current
        assert [row[0] for row in subject.state.key_value_store("kv").all()] == sorted(current)
        subject.state.close()


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(backend=BACKENDS, steps=st.lists(WINDOW_STEPS, max_size=15))
def test_a_window_store_is_a_dictionary_that_forgets_what_is_past_its_retention(
    backend: str, steps: list[tuple[str, Any]]
) -> None:
    interval = max(RETENTION // 2, MINUTE)
    Entries = dict[tuple[bytes, int], tuple[bytes, int]]  # noqa: N806
    with tempfile.TemporaryDirectory() as directory:
        subject = StoreUnderTest(Path(directory), backend, window(retention_ms=RETENTION))
        committed: tuple[Entries, int] = ({}, -1)
        current: Entries = {}
        observed = -1

        def readable(start: int) -> bool:
            return start > observed - RETENTION

        for step, argument in steps:
            store = subject.state.window_store("win")
            if step == "put":
                keys, starts, values, times = (list(column) for column in zip(*argument, strict=True))
                store.put_many(keys, np.array(starts, dtype=np.int64), values, np.array(times, dtype=np.int64))
                for key, start, value, timestamp in argument:
                    observed = max(observed, start)
                    if start // interval >= max(observed - RETENTION, 0) // interval:
                        current.pop((key, start), None)
                        if value is not None:
                            current[key, start] = (value, timestamp)
            elif step == "fetch":
                asked = np.array([start for _, start in argument], dtype=np.int64)
                values, timestamps = store.fetch_many([key for key, _ in argument], asked)
                expected = [current.get(pair, (None, -1)) if readable(pair[1]) else (None, -1) for pair in argument]
                assert list(zip(values, timestamps.tolist(), strict=True)) == expected
            elif step == "range":
                key, first, last = argument
                assert list(store.fetch(key, first, last)) == [
                    (start, *entry)
                    for (other, start), entry in sorted(current.items())
                    if other == key and first <= start <= last and readable(start)
                ]
            else:
                getattr(subject, step)()
                if step == "commit":
                    committed = (dict(current), observed)
                elif step in {"rollback", "reopen"}:
                    current, observed = dict(committed[0]), committed[1]
        subject.commit()
        store = subject.state.window_store("win")
        # As the bytes are in the database: of two keys, one of which begins the other, the start may decide.
        expected_rows = sorted(
            ((start // interval, key, start, *entry) for (key, start), entry in current.items() if readable(start)),
            key=lambda row: (row[0], row[1] + row[2].to_bytes(8, "big")),
        )
        assert [
            (start // interval, key, start, value, time) for key, start, value, time in store.all()
        ] == expected_rows
        assert store.observed_stream_time == observed

        replayed = TaskState.open(None, [window(retention_ms=RETENTION)])
        if subject.changelog:
            keys, values, times = (list(column) for column in zip(*subject.changelog, strict=True))
            replayed.restore_batch("win", keys, values, np.array(times, dtype=np.int64))
        assert list(replayed.window_store("win").all()) == list(store.all())
        subject.state.close()
