"""This process's copies of the global stores, read up to the end offsets that the driver sets for each batch.

A process has a copy of its own, the first free one of ``<state.dir>/<application-id>/global/<store>/<number>``; a later
process goes on with it from the position that it holds.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from millrace.config import StreamsConfig
from millrace.errors import (
    MillraceError,
    OffsetOutOfRangeError,
    StateCorruptedError,
    StateDirectoryLockedError,
    StateError,
)
from millrace.metrics import DropReason
from millrace.state import KeyValueStore, StateDirectory, StateOptions, TaskPosition, TaskState
from millrace.state.replay import RestoreProgress
from millrace.task.collector import OutputBatch, OutputBuffer
from millrace.task.global_reader import BrokerTopicReader, GlobalTopicReader
from millrace.task.global_state import GlobalState, behind
from millrace.task.input import InputBatch, empty_input
from millrace.task.recovery import ProgressListener
from millrace.task.spec import GlobalStoreSpec
from millrace.topology.topic_partition import TopicPartition

STALL_LIMIT_S = 90.0
"""Longest time without records from a topic whose end is not reached, seconds."""

_MOST_COPIES = 256
_REFRESHES = 8
"""How often an idle copy notes, within the time that tombstones stay, that it is still there."""

_log = structlog.get_logger(__name__)

OpenReader = Callable[[StreamsConfig, str, Mapping[int, int | None]], GlobalTopicReader]


@dataclass
class UnreportedCounts:
    """The dropped records that a copy has to report, in the transaction of the batch for which it read them.

    Args:
        dropped: how many records of the topic were dropped, by reason.
        dead_letters: number of dead-letter records.
        records: the dead-letter records.
    """

    dropped: Counter[DropReason] = field(default_factory=Counter)
    dead_letters: int = 0
    records: list[OutputBatch] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.dropped or self.records)

    def add(self, other: UnreportedCounts) -> None:
        """Adds the counts and records of another one to these."""
        self.dropped.update(other.dropped)
        self.dead_letters += other.dead_letters
        self.records += other.records


class GlobalCopy:
    """An open copy of a global store. Any thread of the process may read it and bring it up to date.

    Args:
        spec: the global store.
        config: the application's configuration.
        open_reader: makes the reader of the topic.

    Raises:
        StateError: the database is damaged, or there are too many copies.
    """

    def __init__(
        self, spec: GlobalStoreSpec, config: StreamsConfig, *, open_reader: OpenReader = BrokerTopicReader
    ) -> None:
        self.spec = spec
        self._config = config
        self._open_reader = open_reader
        self._turn = threading.Lock()
        self._dead_letters = OutputBuffer()
        self._unreported = UnreportedCounts()
        self._reader: GlobalTopicReader | None = None
        self._read_partitions: set[TopicPartition] = set()
        self._log = _log.bind(application=config.application_id, store=spec.name)
        self.number, state = _open_first_free(spec, config)
        if reason := self._why_copied_again(state.position):
            self._log.info("global store is built again", reason=reason)
            state.wipe()
        self._task_state = state
        self._state = GlobalState(spec.part, config, state)

    @property
    def store(self) -> KeyValueStore:
        """The store, read-only."""
        return self._state.store

    @property
    def position(self) -> TaskPosition:
        """The position up to which the topic was read."""
        return self._state.position

    @property
    def is_damaged(self) -> bool:
        """Whether the files are damaged or gone, so that :meth:`catch_up` rebuilds the store."""
        return self._task_state.is_damaged

    def catch_up(self, ends: Mapping[TopicPartition, int], on_progress: ProgressListener = lambda _: None) -> None:
        """Reads the topic until the copy has every record before the end offsets; it may also have newer ones.

        Args:
            ends: end offset of each partition of the topic, also of one that was added to it; those of other topics are
                ignored.
            on_progress: called while the copy is read for the first time.

        Raises:
            SerializationError, ProcessingError: a record cannot be read or processed, and its handler does not
                continue. The next call reads it again.
            StateError: no records come from the topic although its end is not reached.
            MillraceError: the broker refuses, or does not answer.
        """
        own = {
            topic_partition: end for topic_partition, end in ends.items() if topic_partition[0] == self.spec.part.topic
        }
        if not self._is_due(own):
            return
        with self._turn:
            if not self._is_due(own):
                return
            try:
                self._read_or_rebuild(own, on_progress)
            except BaseException:
                # What was read and not applied is read again.
                self._close_reader()
                raise

    def take_unreported(self) -> UnreportedCounts:
        """Returns the dropped records since the last call.

        Only the first copy of a host reports them, so that each is reported once.
        """
        with self._turn:
            unreported, self._unreported = self._unreported, UnreportedCounts()
        return unreported

    def return_unreported(self, unreported: UnreportedCounts) -> None:
        """Takes back counts that could not be reported."""
        with self._turn:
            self._unreported.add(unreported)

    def close(self) -> None:
        """Closes the store and releases its directory. Idempotent."""
        with self._turn:
            self._close_reader()
            self._state.end_scans()
            self._task_state.close()

    def _read_or_rebuild(self, ends: Mapping[TopicPartition, int], on_progress: ProgressListener) -> None:
        if not self._state.is_incomplete and not self.is_damaged:
            try:
                self._read_to(ends, on_progress)
            except MillraceError as error:
                # The store's own processor may have met the damage and raised something else.
                if not isinstance(error, OffsetOutOfRangeError | StateCorruptedError) and not self.is_damaged:
                    raise
                self._log.warning("global store is built again", reason=error.message)
                self._close_reader()
            else:
                return
        with self._state.rebuilding():
            self._read_to(ends, on_progress)

    def _is_due(self, ends: Mapping[TopicPartition, int]) -> bool:
        position = self.position
        return (
            self._state.is_incomplete or self.is_damaged or bool(behind(position, ends)) or self._must_refresh(position)
        )

    def _must_refresh(self, position: TaskPosition) -> bool:
        retention_ms = self.spec.tombstone_retention_ms
        return retention_ms is not None and _age_ms(position) > retention_ms / _REFRESHES

    def _why_copied_again(self, position: TaskPosition) -> str:
        """Returns the reason why the directory's copy cannot be used; empty where it can, or where there is none."""
        if not position.inputs:
            return ""
        if position.origin != self.spec.origin:
            return f"it was made of {position.origin}, and {self.spec.part.topic} is {self.spec.origin} now"
        retention_ms = self.spec.tombstone_retention_ms
        if retention_ms is not None and _age_ms(position) > retention_ms / 2:
            return f"tombstones of {_age_ms(position) / 3_600_000:.1f} hours may be compacted away"
        return ""

    def _read_to(self, ends: Mapping[TopicPartition, int], on_progress: ProgressListener) -> None:
        is_restore = not self.position.inputs
        records, started, moved_at = 0, time.monotonic(), time.monotonic()
        while True:
            if not behind(self.position, ends):
                if self._must_refresh(self.position):
                    self._apply(empty_input((self.spec.part.topic,)), self.position.inputs)
                return
            before = self.position
            rows = self._opened_reader(ends).read({partition: end for (_, partition), end in ends.items()})
            inputs = dict(before.inputs)
            for number, reached in rows.positions.items():
                topic_partition = (self.spec.part.topic, number)
                # The copy may be ahead of these ends: of another batch.
                inputs[topic_partition] = max(inputs.get(topic_partition, 0), reached)
            if inputs != before.inputs:
                self._apply(rows.batch, inputs)
                moved_at = time.monotonic()
                records += len(rows.batch)
            elif time.monotonic() - moved_at > STALL_LIMIT_S:
                raise StateError(
                    f"Global topic {self.spec.part.topic} gave nothing for {STALL_LIMIT_S:g} s at {before.inputs}; its "
                    f"ends are {dict(ends)}.",
                    remedy="see that the broker is up; the application starts again by itself",
                )
            if is_restore:
                on_progress(self._progress(ends, records, time.monotonic() - started))

    def _apply(self, batch: InputBatch, inputs: Mapping[TopicPartition, int]) -> None:
        position = TaskPosition(inputs=inputs, written_at_ms=int(time.time() * 1000), origin=self.spec.origin)
        self._state.apply(batch, position, self._dead_letters)
        failures = self._state.failures
        found = UnreportedCounts(Counter(failures.dropped), failures.dead_letters, self._dead_letters.take())
        if found:
            self._log.warning("records of a global topic dropped", dropped=dict(found.dropped), copy=self.number)
        if self.number == 0:
            self._unreported.add(found)

    def _progress(self, ends: Mapping[TopicPartition, int], records: int, elapsed_s: float) -> RestoreProgress:
        inputs = self.position.inputs
        return RestoreProgress(
            store=self.spec.name,
            topic=self.spec.part.topic,
            partition=-1,
            records=records,
            position=sum(inputs.values()),
            remaining=sum(max(end - inputs.get(topic_partition, 0), 0) for topic_partition, end in ends.items()),
            records_per_s=records / elapsed_s if elapsed_s > 0 else 0.0,
        )

    def _opened_reader(self, ends: Mapping[TopicPartition, int]) -> GlobalTopicReader:
        """Returns a reader of the partitions that have end offsets; it is replaced where there are more partitions."""
        if not ends.keys() <= self._read_partitions:
            self._close_reader()
        if self._reader is None:
            inputs = self.position.inputs
            topic_partitions = {*ends, *inputs}
            starts = {topic_partition[1]: inputs.get(topic_partition) for topic_partition in sorted(topic_partitions)}
            self._reader = self._open_reader(self._config, self.spec.part.topic, starts)
            self._read_partitions = topic_partitions
        return self._reader

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
            self._read_partitions = set()


class GlobalCopies:
    """The open copies of all global stores in this process."""

    def __init__(self) -> None:
        self._copies: dict[Path, GlobalCopy] = {}
        self._guard = threading.Lock()

    def copy(self, spec: GlobalStoreSpec, config: StreamsConfig) -> GlobalCopy:
        """Returns the copy of a global store, which the first call opens.

        Raises:
            StateError: see :class:`GlobalCopy`.
        """
        directory = StateDirectory(config.state_dir).global_store(config.application_id, spec.name)
        with self._guard:
            held = self._copies.get(directory)
            if held is not None and _facts(held.spec) != _facts(spec):
                # The topic, or what reads it, has changed since: a reader of the old copy belongs to an older run.
                held.close()
                held = None
            if held is None:
                held = self._copies[directory] = GlobalCopy(spec, config)
            return held

    def close(self) -> None:
        """Closes all copies. Idempotent."""
        with self._guard:
            copies, self._copies = list(self._copies.values()), {}
        for copy in copies:
            copy.close()


def _open_first_free(spec: GlobalStoreSpec, config: StreamsConfig) -> tuple[int, TaskState]:
    directory = StateDirectory(config.state_dir).global_store(config.application_id, spec.name)
    for number in itertools.count():
        try:
            return number, TaskState.open(
                directory / str(number), (spec.part.store,), options=StateOptions.from_config(config)
            )
        except StateDirectoryLockedError:
            if number >= _MOST_COPIES:
                raise
    raise AssertionError("unreachable")


def _facts(spec: GlobalStoreSpec) -> tuple[str, str]:
    return spec.part.topic, spec.origin


def _age_ms(position: TaskPosition) -> float:
    return time.time() * 1000 - position.written_at_ms if position.written_at_ms else 0.0
