"""The estimated size of stores, against RocksDB files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from millrace.sizing import estimate_state_size
from millrace.state import TaskPosition, TaskState
from tests.integration.sizing.measuring import DRAW, random_bytes
from tests.unit.state.specs import key_value, window

ENTRIES = 200_000
WINDOWS = 10
HOUR = 3_600_000
NOW = 472_222 * HOUR


def written(directory: Path, keys: list[bytes], values: Sequence[bytes | None], *, windows: int = 0) -> int:
    """Bytes of the table files of a store with these entries; with ``windows`` each key has one in each of them."""
    specs = [window(retention_ms=HOUR) if windows else key_value()]
    state = TaskState.open(directory, specs)
    step = 20_000
    for start in range(0, len(keys), step):
        some, their = keys[start : start + step], list(values[start : start + step])
        stamps = NOW + DRAW.integers(0, HOUR, len(some))
        if windows:
            starts = NOW + np.arange(start, start + len(some)) % windows * 60_000
            state.window_store("win").put_many(some, starts, their, stamps)
        else:
            state.key_value_store("kv").put_many(some, their, stamps)
        state.drain_changelog()
        state.commit(TaskPosition())
    state.close()
    # A store that is opened after a close has written its log into table files.
    reopened = TaskState.open(directory, specs)
    [(entries, size)] = reopened.sizes().values()
    reopened.close()
    assert entries == pytest.approx(len(keys), rel=0.01)
    return size


@pytest.mark.parametrize(("key_bytes", "value_bytes"), [(16, 100), (32, 400)])
def test_the_size_of_data_that_does_not_compress_is_that_of_the_files(
    tmp_path: Path, key_bytes: int, value_bytes: int
) -> None:
    count = ENTRIES if value_bytes < 400 else ENTRIES // 4
    measured = written(tmp_path / "0_0", random_bytes(count, key_bytes), random_bytes(count, value_bytes))
    estimate = estimate_state_size(keys=count, key_bytes=key_bytes, value_bytes=value_bytes, space_amplification=1)
    assert estimate.disk_bytes == pytest.approx(measured, rel=0.1)


def test_short_entries_take_less_than_estimated_since_what_surrounds_them_compresses(tmp_path: Path) -> None:
    measured = written(tmp_path / "0_0", random_bytes(ENTRIES, 8), random_bytes(ENTRIES, 16))
    estimate = estimate_state_size(keys=ENTRIES, key_bytes=8, value_bytes=16, space_amplification=1)
    assert 0.7 * estimate.disk_bytes < measured < estimate.disk_bytes


def test_windows_of_one_key_share_it_and_take_less_than_estimated(tmp_path: Path) -> None:
    count = ENTRIES // WINDOWS
    keys = [key for key in random_bytes(count, 16) for _ in range(WINDOWS)]
    measured = written(tmp_path / "0_0", keys, random_bytes(ENTRIES, 60), windows=WINDOWS)
    # Retention and segment together are the ten windows that were written.
    estimate = estimate_state_size(
        keys=count, key_bytes=16, value_bytes=60, retention=540_000, advance=81_000, space_amplification=1
    )
    assert estimate.entries == ENTRIES
    assert 0.55 * estimate.disk_bytes < measured < estimate.disk_bytes


def test_compression_is_that_of_a_sample(tmp_path: Path) -> None:
    """The ratio that a small store of the same data has holds for a larger one."""
    text = [b'{"account":"a%07d","cents":%d,"country":"DE","shop":"north"}' % (n, n * 37) for n in range(ENTRIES)]
    keys = random_bytes(ENTRIES, 16)
    length = sum(map(len, text)) // len(text)
    sample = written(tmp_path / "sample", keys[:20_000], text[:20_000])
    plain = estimate_state_size(keys=20_000, key_bytes=16, value_bytes=length, space_amplification=1)
    estimate = estimate_state_size(
        keys=ENTRIES,
        key_bytes=16,
        value_bytes=length,
        compression_ratio=sample / plain.disk_bytes,
        space_amplification=1,
    )
    assert sample < plain.disk_bytes
    assert estimate.disk_bytes == pytest.approx(written(tmp_path / "whole", keys, text), rel=0.25)


def test_a_store_that_is_updated_stays_below_its_superseded_entries(tmp_path: Path) -> None:
    """Three rounds of updates wait for compaction at worst; the estimate with its amplification is the settled size."""
    count = ENTRIES // 4
    keys = random_bytes(count, 16)
    rounds = 4
    state = TaskState.open(tmp_path / "0_0", [key_value()])
    for _ in range(rounds):
        state.key_value_store("kv").put_many(keys, list(random_bytes(count, 100)), np.full(count, 1_000))
        state.drain_changelog()
        state.commit(TaskPosition())
    state.close()
    reopened = TaskState.open(tmp_path / "0_0", [key_value()])
    measured = reopened.sizes()["kv"][1]
    reopened.close()
    estimate = estimate_state_size(keys=count, key_bytes=16, value_bytes=100)
    assert estimate.live_bytes * 0.75 < measured < estimate.live_bytes * rounds
