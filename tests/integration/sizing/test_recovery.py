"""The estimated recovery time, against restorations from the broker."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from millrace.kafka.producer import TaskProducer
from millrace.sizing import estimate_recovery_time, log_record_bytes
from millrace.sizing.recovery import RESTORE_BYTES_PER_S
from millrace.state import TaskPosition, TaskState, restore
from tests.integration.sizing.measuring import random_bytes
from tests.unit.state.specs import key_value

VALUE_BYTES = 200
HALF = 60_000
WHOLE = 120_000
TAIL = 10_000
RECORD_BYTES = log_record_bytes(16, VALUE_BYTES, records_per_batch=5_000)


@pytest.fixture
def changelog(make_topic: Callable[..., str], bootstrap_servers: str, unique: str) -> str:
    """A changelog of as many records as keys, the last of which follow all others."""
    topic = make_topic("changelog", cleanup_policy="compact")
    producer = TaskProducer(bootstrap_servers, transactional_id=f"{unique}-0_0")
    producer.init()
    for _ in range(WHOLE // TAIL):
        producer.begin()
        keys, values = random_bytes(TAIL, 16), random_bytes(TAIL, VALUE_BYTES)
        producer.send(topic, keys, values, np.full(TAIL, 1_000), partition=0)
        producer.commit({}, unique)
    producer.close()
    return topic


def end_of(records: int) -> int:
    """The offset behind so many records: each marker takes one too, but the last one is not waited for."""
    return records + records // TAIL - 1


def seconds_to_restore(
    directory: Path, topic: str, bootstrap_servers: str, *, until: int, after: int | None = None
) -> float:
    state = TaskState.open(directory, [key_value()])
    began = time.perf_counter()
    progress = restore(
        state,
        "kv",
        topic,
        0,
        from_offset=None if after is None else end_of(after),
        to_offset=end_of(until),
        bootstrap_servers=bootstrap_servers,
    )
    taken = time.perf_counter() - began
    assert progress.records == until - (after or 0)
    state.commit(TaskPosition(changelogs={"kv": end_of(until)}))
    state.close()
    return taken


@pytest.mark.alone
def test_a_whole_restoration_and_that_of_a_standby_s_tail_take_the_estimated_time(
    tmp_path: Path, changelog: str, bootstrap_servers: str
) -> None:
    """Start and rate are taken from restorations of the first twelfth and half; the time for the whole follows."""

    def restored(name: str, until: int, after: int | None = None) -> float:
        return seconds_to_restore(tmp_path / name, changelog, bootstrap_servers, until=until, after=after)

    restored("warm-up", TAIL)
    # Turn by turn, and the fastest: what else the machine does only adds to it, and meets all of them.
    runs = [[restored(f"{until}-{turn}", until) for until in (TAIL, HALF, WHOLE)] for turn in range(4)]
    start, half, whole = (min(times) for times in zip(*runs, strict=True))
    load: dict[str, Any] = {
        "changelog_bytes": (WHOLE - TAIL) * RECORD_BYTES,
        "restore_start_s": start,
        "restore_bytes_per_s": (HALF - TAIL) * RECORD_BYTES / max(half - start, half / 4),
    }
    alone = estimate_recovery_time(**load)
    assert alone.restore_s / 3 < whole < alone.restore_s * 3
    assert RESTORE_BYTES_PER_S / 10 < WHOLE * RECORD_BYTES / whole < RESTORE_BYTES_PER_S * 10, "the assumed rate"

    restored("standby", WHOLE - TAIL)
    helped = estimate_recovery_time(**load, standby=True, update_bytes_per_s=TAIL * RECORD_BYTES / 2, standby_lag_s=2.0)
    assert helped.restore_bytes == pytest.approx(TAIL * RECORD_BYTES)
    # A single run, so it may have met anything; but it is far from a whole restoration's worst.
    assert restored("standby", WHOLE, after=WHOLE - TAIL) < 4 * max(helped.restore_s, alone.restore_s)
