from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from millrace.errors import BrokerUnavailableError, MillraceError, OffsetOutOfRangeError, StateError
from millrace.kafka.columns import PartitionColumns
from millrace.state import RestoreProgress, TaskPosition, TaskState, restore
from tests.unit.state.specs import key_value


@dataclass
class Record:
    at: int
    its_key: bytes | None = b"k"
    its_value: bytes | None = b"v"


def read(*records: Record, position: int | None = None) -> PartitionColumns:
    """What a poll brings: records, and a position where it is further than these."""
    offsets = [record.at for record in records]
    return PartitionColumns(
        topic="app-kv-changelog",
        partition=3,
        offsets=np.array(offsets, dtype=np.int64),
        timestamps=np.array(offsets, dtype=np.int64) + 1_000,
        keys=pa.array([record.its_key for record in records], pa.binary()),
        values=pa.array([record.its_value for record in records], pa.binary()),
        position=offsets[-1] + 1 if position is None else position,
    )


def end_of_partition(offset: int) -> PartitionColumns:
    return read(position=offset)


@dataclass
class ScriptedLog:
    """A changelog that hands out what was prepared, or raises it."""

    log_start: int
    log_end: int
    batches: list[PartitionColumns | MillraceError] = field(default_factory=list)
    started_at: int | None = None
    is_closed: bool = False
    trouble: str = ""

    def log_range(self) -> tuple[int, int]:
        return self.log_start, self.log_end

    def start(self, offset: int) -> None:
        self.started_at = offset

    def read(self) -> Sequence[PartitionColumns]:
        if not self.batches:
            return []
        batch = self.batches.pop(0)
        if isinstance(batch, MillraceError):
            raise batch
        return [batch]

    def close(self) -> None:
        self.is_closed = True


def run(
    log: ScriptedLog, *, from_offset: int | None, to_offset: int, **options: Any
) -> tuple[TaskState, RestoreProgress]:
    state = TaskState.open(None, [key_value()])
    progress = restore(
        state,
        "kv",
        "app-kv-changelog",
        3,
        from_offset=from_offset,
        to_offset=to_offset,
        bootstrap_servers="unused:1",
        reader=log,
        **options,
    )
    return state, progress


def entries(state: TaskState) -> dict[bytes, bytes]:
    return {key: value for key, value, _ in state.key_value_store("kv").all()}


def test_a_log_of_one_record_is_restored() -> None:
    """Case S01."""
    log = ScriptedLog(0, 1, [read(Record(0))])

    state, progress = run(log, from_offset=0, to_offset=1)

    assert log.started_at == 0
    assert entries(state) == {b"k": b"v"}
    assert (progress.records, progress.position, progress.remaining) == (1, 1, 0)
    assert log.is_closed


def test_trailing_markers_and_aborted_records_count_as_progress() -> None:
    """Case S03."""
    log = ScriptedLog(0, 5, [read(Record(0)), end_of_partition(5)])

    state, progress = run(log, from_offset=None, to_offset=5)

    assert (progress.records, progress.position, progress.remaining) == (1, 5, 0)
    assert entries(state) == {b"k": b"v"}


def test_the_last_progress_says_that_nothing_remains_also_where_the_log_ends_in_markers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("millrace.state.replay.BATCH_RECORDS", 2)
    log = ScriptedLog(0, 9, [read(Record(0), Record(1)), read(Record(2)), end_of_partition(9)])
    seen: list[RestoreProgress] = []

    state, progress = run(log, from_offset=None, to_offset=9, on_progress=seen.append)

    assert [(each.records, each.remaining) for each in seen] == [(2, 7), (3, 0)]
    assert progress.records == 3
    assert state.key_value_store("kv").get(b"k") == (b"v", 1_002)


def test_large_records_are_written_before_there_are_many() -> None:
    large = bytes(9 * (1 << 20))
    log = ScriptedLog(0, 4, [read(Record(number, its_value=large)) for number in range(4)])
    seen: list[RestoreProgress] = []

    run(log, from_offset=None, to_offset=4, on_progress=seen.append)

    assert [each.records for each in seen] == [2, 4]


def test_records_at_and_after_the_end_are_not_applied() -> None:
    log = ScriptedLog(0, 9, [read(Record(1, its_value=b"old"), Record(7, its_value=b"newer than the commit"))])

    state, progress = run(log, from_offset=0, to_offset=5)

    assert entries(state) == {b"k": b"old"}
    assert progress.position == 5


def test_tombstones_delete_and_records_without_key_are_skipped() -> None:
    log = ScriptedLog(
        0, 4, [read(Record(0), Record(1, its_key=None), Record(2, its_key=b"x"), Record(3, its_value=None))]
    )

    state, progress = run(log, from_offset=0, to_offset=4)

    assert entries(state) == {b"x": b"v"}
    assert progress.records == 3


def test_an_end_that_is_reached_already_reads_nothing() -> None:
    log = ScriptedLog(0, 9)

    _, progress = run(log, from_offset=5, to_offset=5)

    assert log.started_at is None
    assert (progress.position, progress.remaining, progress.records) == (5, 0, 0)


def test_a_log_shorter_than_the_committed_offset_is_an_error_with_all_offsets() -> None:
    with pytest.raises(StateError, match=r"app-kv-changelog, partition 3, of store kv ends at offset 4, but offset 9"):
        run(ScriptedLog(0, 4), from_offset=0, to_offset=9)


def test_a_log_that_begins_after_the_position_is_an_error_and_a_whole_restoration_is_not() -> None:
    """Case S06."""
    with pytest.raises(StateError, match="begins at offset 50, the store is at offset 10") as raised:
        run(ScriptedLog(50, 120), from_offset=10, to_offset=120)
    assert "restore it whole" in raised.value.remedy

    log = ScriptedLog(50, 120, [read(Record(50)), end_of_partition(120)])
    state, progress = run(log, from_offset=None, to_offset=120)
    assert log.started_at == 50
    assert entries(state) == {b"k": b"v"}
    assert progress.position == 120


def test_a_log_truncated_while_it_is_read_is_an_error() -> None:
    """Case S06."""
    lost = OffsetOutOfRangeError("Offset 1 of app-kv-changelog-3 is not in the log any more.")
    log = ScriptedLog(0, 120, [read(Record(0)), lost])

    with pytest.raises(StateError, match="lost records while it was read: Offset 1 of app-kv-changelog-3"):
        run(log, from_offset=0, to_offset=120)
    assert log.is_closed


def test_a_store_ahead_of_the_commit_is_an_error() -> None:
    with pytest.raises(StateError, match="offset 8 of app-kv-changelog, partition 3, ahead of the committed offset 5"):
        run(ScriptedLog(0, 9), from_offset=8, to_offset=5)


def test_a_log_that_gives_nothing_ends_in_an_error() -> None:
    with pytest.raises(StateError, match=r"gave nothing for 0\.01 s at offset 1; offset 5 was committed"):
        run(ScriptedLog(0, 5, [read(Record(0))]), from_offset=0, to_offset=5, stall_timeout_s=0.01)


def test_a_broker_that_is_gone_is_named() -> None:
    log = ScriptedLog(0, 5, trouble="1/1 brokers are down")

    with pytest.raises(BrokerUnavailableError, match=r"unused:1 .*: 1/1 brokers are down"):
        run(log, from_offset=0, to_offset=5, stall_timeout_s=0.01)


def test_progress_tells_what_remains_and_the_position_moves_only_by_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millrace.state.replay.BATCH_RECORDS", 2)
    log = ScriptedLog(0, 4, [read(Record(0), Record(1)), read(Record(2), Record(3))])
    seen: list[RestoreProgress] = []

    state, _ = run(log, from_offset=0, to_offset=4, on_progress=seen.append)

    assert [(progress.records, progress.remaining) for progress in seen] == [(2, 2), (4, 0)]
    assert seen[0].records_per_s > 0
    assert seen[1].eta_s == 0
    assert state.position == TaskPosition()
    state.commit(TaskPosition(changelogs={"kv": 4}))
    assert state.key_value_store("kv").get_many([b"k"])[1].tolist() == [1_003]
    assert np.array_equal(state.key_value_store("kv").get_many([b"none"])[1], [-1])
