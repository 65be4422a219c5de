"""Case W14 without a broker: tasks that end between batches, with their state directory or only their changelogs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from millrace.config import StreamsConfig
from millrace.dsl import (
    BufferConfig,
    Consumed,
    EmitStrategy,
    Materialized,
    Produced,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from millrace.serdes import LongSerde, SessionWindowedSerde, StringSerde, TimeWindowedSerde
from millrace.state import TaskPosition, TaskState
from millrace.task.collector import OutputBatch
from millrace.task.engine import Engine
from millrace.testing.topics import RawRecord, input_batch
from millrace.topology.parts import SubTopology

TEXT = StringSerde()
CONFIG = StreamsConfig.from_mapping({"application.id": "app", "bootstrap.servers": "none:0"})
Final = tuple[bytes | None, bytes | None, int, Any]
"""Key, value, timestamp, headers."""

WINDOWS: dict[str, Any] = {
    "tumbling": TimeWindows.of_size_with_no_grace(10),
    "hopping": TimeWindows.of_size_and_grace(10, 2).advance_by(4),
    "sliding": SlidingWindows.of_time_difference_with_no_grace(10),
    "sessions": SessionWindows.of_inactivity_gap_with_no_grace(5),
}


def counting(windows: Any) -> SubTopology:
    """Counts once by suppression, once on window close, one after the other in one task."""
    builder = StreamsBuilder()
    serde = (
        SessionWindowedSerde(TEXT) if isinstance(windows, SessionWindows) else TimeWindowedSerde(TEXT, windows.size_ms)
    )
    windowed = builder.stream("in", Consumed.with_(TEXT, TEXT)).group_by_key().windowed_by(windows)
    written = Produced.with_(serde, LongSerde())
    final = Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("final")
    windowed.count(Materialized.as_("counts")).suppress(final).to_stream().to("suppressed", written)
    closing = windowed.emit_strategy(EmitStrategy.on_window_close()).count(Materialized.as_("closing"))
    closing.to_stream().to("on-close", written)
    (part,) = builder.build().sub_topologies
    return part


class Life:
    """Runs a task over the batches of its lives; in between it has its directory, its changelogs and its times."""

    def __init__(self, part: SubTopology, directory: Path) -> None:
        self._part = part
        self._directory = directory
        self._changelogs: defaultdict[str, list[tuple[bytes, bytes | None, int, Any]]] = defaultdict(list)
        self._stream_times: dict[str, int] = {}
        self._offset = 0
        self._number = 0
        self.written: defaultdict[str, list[Final]] = defaultdict(list)

    def run(self, batches: list[list[RawRecord]], *, lost: bool) -> None:
        """A life of the task.

        Args:
            batches: its input.
            lost: the directory is gone, so that the stores are restored from their changelogs.
        """
        if lost:
            self._number += 1
        state = TaskState.open(self._directory / str(self._number), self._part.stores)
        try:
            if lost:
                self._restore(state)
            engine = Engine(
                self._part,
                CONFIG,
                state,
                task="0_0",
                partition=0,
                stream_times=self._stream_times,
                partition_times={},
            )
            for records in batches:
                rows = [("in", self._offset + row, record) for row, record in enumerate(records)]
                self._offset += len(rows)
                engine.process(engine.sources.in_stream_order(input_batch(("in",), rows)), self)
                self._stream_times = dict(engine.context.stream_times)
                state.commit(TaskPosition(stream_times=self._stream_times))
        finally:
            state.close()

    def send(self, batch: OutputBatch) -> None:
        """Keeps what the task writes."""
        headers = [None] * len(batch) if batch.headers is None else batch.headers.tolist()
        rows = list(zip(batch.keys, batch.values, batch.timestamps.tolist(), headers, strict=True))
        if batch.store is None:
            self.written[batch.topic] += rows
        else:
            self._changelogs[batch.store] += [(key or b"", *rest) for key, *rest in rows]  # type: ignore[misc]

    def expect_dead_letter_records(self, _topics: Iterable[str], /) -> None:
        """Every topic exists."""

    def partition_count(self, _topic: str, /) -> int:
        """Every topic has one partition."""
        return 1

    def refused(self, _batch: OutputBatch, /) -> list[Any]:
        """Nothing is."""
        return []

    def _restore(self, state: TaskState) -> None:
        for store, rows in self._changelogs.items():
            if rows:
                keys, values, timestamps, headers = zip(*rows, strict=True)
                state.restore_batch(store, list(keys), list(values), np.array(timestamps, dtype=np.int64), headers)
        state.commit(TaskPosition(stream_times=self._stream_times))


def at(key: str, timestamp: int) -> RawRecord:
    return RawRecord(key.encode(), b"1", timestamp, [("at", b"%d" % timestamp)])


BATCHES = [
    [at("k", 1), at("k", 5)],
    [at("j", 7), at("k", 3)],
    [at("o", 20)],
    [at("o", 22), at("k", 24)],
    [at("p", 40), at("late", 2)],
    [at("q", 10**9)],
    [at("q", 10**9 + 100)],
]


@pytest.mark.parametrize("lost", [False, True], ids=["with its directory", "from its changelogs"])
@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
def test_every_final_result_comes_once_whatever_ends_in_between(windows: Any, lost: bool, tmp_path: Path) -> None:
    part = counting(windows)
    whole = Life(part, tmp_path / "whole")
    whole.run(BATCHES, lost=False)
    cut = Life(part, tmp_path / "cut")
    for batch in BATCHES:
        cut.run([batch], lost=lost)
    assert cut.written == whole.written
    suppressed, on_close = ([row[:3] for row in cut.written[topic]] for topic in ("suppressed", "on-close"))
    # At the very end of a sliding window suppression lets its result go already.
    at_the_limit = [row for row in suppressed if row not in on_close]
    assert sorted(suppressed) == sorted([*on_close, *at_the_limit])
    assert len(at_the_limit) == isinstance(windows, SlidingWindows)
    keys = [key for key, *_ in on_close]
    assert len(set(keys)) == len(keys) > 4


def test_results_and_times_are_those_of_the_case(tmp_path: Path) -> None:
    life = Life(counting(WINDOWS["tumbling"]), tmp_path)
    for batch in ([at("k", 1), at("k", 5)], [at("o", 20)], [at("p", 40)]):
        life.run([batch], lost=True)
    start = {0: bytes(8), 20: (20).to_bytes(8, "big")}
    wanted = [(b"k" + start[0], (2).to_bytes(8, "big"), 5), (b"o" + start[20], (1).to_bytes(8, "big"), 20)]
    for topic in ("suppressed", "on-close"):
        assert [row[:3] for row in life.written[topic]] == wanted
