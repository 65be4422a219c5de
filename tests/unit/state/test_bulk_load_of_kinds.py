"""Bulk loads of every kind of store: what they leave is what the ordinary way leaves, and what was logged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from millrace.state import BufferedRecordContext, ChangelogBatch, TaskPosition, TaskState
from millrace.topology.stores import StoreKind, StoreSpec
from tests.unit.state.specs import key_value, versioned, window

MINUTE = 60_000
ROUNDS = 6
SPECS = [
    key_value(),
    versioned(retention_ms=2 * MINUTE, segment_interval_ms=MINUTE),
    window(retention_ms=2 * MINUTE),
    StoreSpec(name="sessions", kind=StoreKind.SESSION, retention_ms=2 * MINUTE),
    StoreSpec(
        name="join", kind=StoreKind.WINDOW, window_size_ms=MINUTE, retention_ms=2 * MINUTE, retains_duplicates=True
    ),
    StoreSpec(name="held", kind=StoreKind.BUFFER, cached=False),
]
KEYS = [b"%04d" % number for number in range(200)]


def _written(state: TaskState) -> list[ChangelogBatch]:
    """Writes that replace, delete and expire, with what they logged."""
    logged = []
    for turn in range(ROUNDS):
        at = turn * MINUTE
        times = np.full(len(KEYS), at)
        values: list[bytes | None] = [
            b"%d-%s" % (turn, key) if (number + turn) % 5 else None for number, key in enumerate(KEYS)
        ]
        state.key_value_store("kv").put_many(KEYS, values, times)
        state.versioned_store("ver").put_many(KEYS, values, times)
        state.window_store("win").put_many(KEYS, times, values, times)
        state.session_store("sessions").put_many(KEYS, [at] * len(KEYS), [at + 9] * len(KEYS), values, times)
        state.join_store("join").put_many(KEYS * 2, [*values, *values], np.tile(times, 2))
        held = state.suppression_buffer("held")
        for key in KEYS[turn * 10 :]:
            held.put(key, at, None, b"new-%d" % turn, BufferedRecordContext(at, turn, "in", 0))
        for _ in range(5):
            held.pop()
        logged += state.drain_changelog()
        state.commit(TaskPosition())
    return logged


def _contents(state: TaskState, store: str) -> list[tuple[bytes | None, bytes | None, int]]:
    return [
        row
        for batch in state.records(store)
        for row in zip(batch.keys, batch.values, batch.timestamps.tolist(), strict=True)
    ]


@pytest.mark.parametrize("loads", [True, False], ids=["load", "ordinary"])
def test_a_restored_store_of_every_kind_has_what_was_written_and_keeps_it(*, loads: bool, tmp_path: Path) -> None:
    source = TaskState.open(tmp_path / "source", SPECS)
    logged = _written(source)
    target = TaskState.open(tmp_path / "target", SPECS)
    if loads:
        for spec in SPECS:
            target.begin_load(spec.name)
        assert target.is_loading
    for batch in logged:
        headers = batch.headers if target.restores_headers(batch.store) else None
        target.restore_batch(batch.store, batch.keys, batch.values, batch.timestamps, headers)
    target.commit(TaskPosition(changelogs={spec.name: 1 for spec in SPECS}))
    assert not target.is_loading
    target.close()

    reopened = TaskState.open(tmp_path / "target", SPECS)
    for spec in SPECS:
        expected = _contents(source, spec.name)
        assert expected, spec.name
        assert _contents(reopened, spec.name) == expected, spec.name
    source.close()
    reopened.close()
