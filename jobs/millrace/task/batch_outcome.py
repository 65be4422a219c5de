"""The result of a batch in a task, and the clock that measures its phases."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from millrace.task.processor import HeldBack
from millrace.topology.topic_partition import TopicPartition


@dataclass(frozen=True, kw_only=True)
class BatchOutcome:
    """The result of a batch in a task.

    Args:
        task: the task's name.
        positions: committed offset of each input partition after the batch.
        undecided: rows that were left for a later batch, since older records of another input may still come.
        transactions: transactions that were committed, by this attempt or by an earlier one that could not report them.
        counts: ``read``, ``written.<topic>``, ``dropped.<reason>``, ``silently_dropped.<reason>``, ``dead_letters``;
            those that are not 0.
        durations: seconds by phase: open, restore, read, process, commit, store.
        lateness: how far behind stream time records were, milliseconds.
        latencies: from each record's timestamp to the commit, seconds; one number per record.
        store_sizes: entries and bytes by store.
        stream_times: stream time of each windowed operator, milliseconds, by store.
        held_back: what is held back until stream time has advanced, by store.
        merged_bytes: keys and values of the updates that cached stores have merged for the commit; measured where
            ``statestore.cache.max.bytes`` bounds them.
        restored: changelog records that were replayed before the batch.
        rebuilds: how often stores were emptied before the batch because their files were damaged.
        next_punctuation_ms: when a punctuation is due by the wall clock, milliseconds since the epoch; ``None`` where
            none is scheduled.
        answer: what the action that came with the batch returned.
    """

    task: str
    positions: Mapping[TopicPartition, int]
    undecided: int = 0
    transactions: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    durations: Mapping[str, float] = field(default_factory=dict)
    lateness: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    latencies: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.float64))
    store_sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    stream_times: Mapping[str, int] = field(default_factory=dict)
    held_back: Mapping[str, HeldBack] = field(default_factory=dict)
    merged_bytes: int = 0
    restored: int = 0
    rebuilds: int = 0
    next_punctuation_ms: int | None = None
    answer: object = None


class PhaseClock:
    """A clock of seconds by phase, in :attr:`laps`."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        """Ends a phase and adds its seconds."""
        now = time.perf_counter()
        self.laps[phase] = self.laps.get(phase, 0.0) + now - self._last
        self._last = now
