"""A copy of one task's stores that follows their changelogs, so that the task replays only a tail when it moves here.

The copy is a task directory like any other. Its position says that a standby wrote it, and how far each store is:
after the last record that was applied, as in a commit of the task, never after markers that follow it. Only
committed records are applied, and of a source topic that serves as a changelog only what the application has committed.
So a copy is never ahead of what the task that takes it finds committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import structlog

from millrace.errors import OffsetOutOfRangeError
from millrace.kafka.columns import PartitionColumns, open_reader
from millrace.kafka.offsets import End, begin_offsets, end_offsets
from millrace.state.changelog_reader import READ_RECORDS, admin_beside_consumer, changelog_settings, lost_offset
from millrace.state.position import TaskPosition
from millrace.state.replay import Replay
from millrace.state.task_state import StateOptions, TaskState
from millrace.topology.stores import StoreSpec

CHECK_INTERVAL_S = 1.0
"""How often the broker is asked for the ends of the changelogs."""

COMMIT_INTERVAL_S = 1.0
"""How often the position is written: what a kill makes the copy apply again."""

LOAD_COMMIT_INTERVAL_S = 60.0
"""The same while stores are loaded from nothing, which each commit ends."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Runs:
    """The runs of an application, from its commits.

    Args:
        newest: number of the newest run that has committed; 0 where none has.
        reset: number of the run that the last reset stands for; 0 where there was none.
    """

    newest: int = 0
    reset: int = 0

    @property
    def are_known(self) -> bool:
        """Whether the changelogs are those of the newest run. After a reset they may be the old ones until one runs."""
        return self.newest > self.reset


@dataclass(frozen=True, kw_only=True)
class CopiedTask:
    """A task whose stores are copied.

    Args:
        name: for example ``1_3``.
        partition: its partition.
        directory: where the copy is.
        stores: the stores of its sub-topology.
        changelogs: the changelog topic of each store that has one.
        source_topics: those of them that are input topics of the application.
        tombstone_retention_ms: the least ``delete.retention.ms`` of the changelogs, ``None`` where none is compacted.
        inputs: its input partitions.
    """

    name: str
    partition: int
    directory: Path
    stores: Sequence[StoreSpec]
    changelogs: Mapping[str, str]
    source_topics: frozenset[str] = frozenset()
    tombstone_retention_ms: int | None = None
    inputs: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class CopyStatus:
    """The status of a standby copy.

    Args:
        lag: offsets that the copy does not have yet, over all changelogs; ``None`` before the broker was asked.
        records: records applied since it was opened.
        records_per_s: rate since then.
        behind_s: seconds since the copy last had all that there was; ``None`` where it never had.
        positions: next offset to apply, by store.
        run: number of the run from whose changelogs it began; 0 where it is not known.
    """

    lag: int | None
    records: int
    records_per_s: float
    behind_s: float | None
    positions: Mapping[str, int] = field(default_factory=dict)
    run: int = 0


class StandbyCopy:
    """A standby copy. Used by one thread; any may call :meth:`status`. Leaving its ``with`` block releases it.

    Args:
        task: what to copy.
        bootstrap_servers: the broker.
        committed: returns the application's committed offset of an input partition, ``None`` if there is none; called
            for source topics that serve as changelogs.
        runs: returns the application's runs. The copy keeps the number of the run from whose changelogs it began, and
            begins again after a reset; a task takes no copy from before one.
        settings: client settings of the user (``consumer.*``), without prefix.
        options: memory of the stores.

    Raises:
        StateDirectoryLockedError: a task, or another standby, has the directory.
        StateError: a changelog is missing, or the disk fails.
        BrokerUnavailableError: no broker answers.
    """

    def __init__(
        self,
        task: CopiedTask,
        bootstrap_servers: str,
        committed: Callable[[tuple[str, int]], int | None],
        runs: Callable[[], Runs],
        *,
        settings: Mapping[str, str] | None = None,
        options: StateOptions | None = None,
    ) -> None:
        self._task = task
        self._committed = committed
        self._runs = runs
        self._run = 0
        self._store_of = {topic: store for store, topic in task.changelogs.items()}
        self._admin = admin_beside_consumer(bootstrap_servers, settings)
        self._held_back: set[str] = set()
        self._limits: dict[str, int] = {}
        self._started = time.monotonic()
        self._opened_at_ms = int(time.time() * 1000)
        self._committed_at = self._started
        self._checked_at = self._started
        self._complete_at_ms = 0
        self._changed = False
        self._lag: int | None = None
        self._opened = ExitStack()
        try:
            self._state = TaskState.open(task.directory, task.stores, options=options)
            self._opened.callback(self._state.close)
            self._reader = open_reader(changelog_settings(bootstrap_servers, settings))
            self._opened.callback(self._reader.close)
            self._replays: dict[str, Replay] = {}
            self._begin()
        except BaseException:
            self._opened.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commits the position, unless an error was raised, and releases the directory."""
        with self._opened:
            if error is None:
                self.commit()

    def status(self) -> CopyStatus:
        """Returns the status of the copy."""
        records = sum(replay.records for replay in self._replays.values())
        elapsed = time.monotonic() - self._started
        behind = time.time() - self._complete_at_ms / 1000 if self._complete_at_ms else None
        return CopyStatus(
            lag=self._lag,
            records=records,
            records_per_s=records / elapsed if elapsed else 0.0,
            behind_s=behind,
            positions={store: replay.applied_to for store, replay in self._replays.items()},
            run=self._run,
        )

    def catch_up(self, *, wait_s: float = 0.2) -> bool:
        """Applies the next records; returns whether there were any.

        Args:
            wait_s: how long to wait for the first, seconds.

        Raises:
            StateError: records are gone that the copy does not have (:meth:`restart_copy` helps), or the disk fails.
            BrokerUnavailableError: the broker refuses for good.
        """
        try:
            news = self._reader.poll(wait_s, READ_RECORDS)
        except OffsetOutOfRangeError as error:
            raise lost_offset(error, f"changelog of task {self._task.name}") from error
        for columns in news:
            self._replays[self._store_of[columns.topic]].apply(self._allowed(columns))
        self._changed = self._changed or bool(news)
        now = time.monotonic()
        if now - self._checked_at >= CHECK_INTERVAL_S:
            if self._is_from_before_a_reset():
                _log.info("application was reset, copy begins again", task=self._task.name)
                self.restart_copy()
            self._check_ends()
        interval = LOAD_COMMIT_INTERVAL_S if self._state.is_loading and self._lag else COMMIT_INTERVAL_S
        if now - self._committed_at >= interval:
            self.commit()
        return bool(news)

    def reach_ends(self, ends: Mapping[str, int], *, until: Callable[[], bool] = lambda: False) -> None:
        """Applies records up to these ends of the changelogs, by store, or until ``until`` returns true."""
        while not until() and any(self._replays[store].position < end for store, end in ends.items()):
            self.catch_up()
        self._check_ends()

    def ends(self) -> dict[str, int]:
        """Returns the current changelog ends, by store: for a source topic the application's committed offset."""
        topic_partitions = {store: (topic, self._task.partition) for store, topic in self._task.changelogs.items()}
        ends = end_offsets(self._admin, list(topic_partitions.values()), End.LAST_STABLE)
        found = {}
        for store, topic_partition in topic_partitions.items():
            limit = (
                self._committed(topic_partition)
                if topic_partition[0] in self._task.source_topics
                else ends[topic_partition]
            )
            found[store] = min(ends[topic_partition], limit or 0)
        return found

    def commit(self) -> None:
        """Writes the applied records and the position, in one write."""
        for replay in self._replays.values():
            replay.settle()
        self._committed_at = time.monotonic()
        if not self._changed:
            return
        # Tombstones may be compacted away that the copy has not seen, unless it had seen everything not long ago.
        written_at_ms = self._complete_at_ms or self._state.position.written_at_ms or self._opened_at_ms
        self._state.commit(
            TaskPosition(
                changelogs={store: replay.applied_to for store, replay in self._replays.items()},
                written_at_ms=written_at_ms,
                run_id=self._run,
                standby=True,
            )
        )
        self._changed = False

    def restart_copy(self) -> None:
        """Wipes the copy, and begins again with the first records of the changelogs."""
        self._state.wipe()
        self._begin()

    def _begin(self) -> None:
        # Asked before the changelogs: a reset in between makes the number too small, never too large.
        runs = self._runs()
        if self._is_useless(runs):
            _log.info("copy begins again", task=self._task.name, directory=str(self._task.directory))
            self._state.wipe()
        known = self._known()
        topic_partitions = {store: (topic, self._task.partition) for store, topic in self._task.changelogs.items()}
        begins = begin_offsets(self._admin, list(topic_partitions.values()))
        ends = end_offsets(self._admin, list(topic_partitions.values()), End.HIGH_WATERMARK)
        lost = [
            store
            for store, at in known.items()
            if not begins[topic_partitions[store]] <= at <= ends[topic_partitions[store]]
        ]
        if lost:
            _log.warning(
                "changelogs do not have what the copy lacks, beginning again", task=self._task.name, stores=lost
            )
            self._state.wipe()
            known = {}
        replays = {}
        for store, topic_partition in topic_partitions.items():
            if store not in known:
                self._state.begin_load(store)
            replays[store] = Replay(
                self._state,
                store,
                *topic_partition,
                position=known.get(store, begins[topic_partition]),
                end=None,
                on_progress=None,
            )
        self._reader.unassign(topic_partitions.values())
        self._reader.assign({topic_partitions[store]: replay.position for store, replay in replays.items()})
        self._held_back = set()
        self._replays = replays
        self._run = self._state.position.run_id if known else runs.newest if runs.are_known else 0
        self._check_ends()

    def _is_useless(self, runs: Runs) -> bool:
        """Returns whether the directory has state from which the copy cannot continue."""
        position = self._state.position
        if position.written_at_ms and position.run_id < runs.reset:
            return True
        if not position.standby and any(not store.has_changelog for store in self._task.stores):
            return bool(position.inputs)
        if self._task.tombstone_retention_ms is None or not position.written_at_ms:
            return False
        return time.time() * 1000 - position.written_at_ms > self._task.tombstone_retention_ms / 2

    def _known(self) -> dict[str, int]:
        """Returns the next offset of each store that the directory has."""
        position = self._state.position
        known = {store: at for store, at in position.changelogs.items() if store in self._task.changelogs}
        if not position.standby:
            # A task was here: for it a source topic is an input.
            for store, topic in self._task.changelogs.items():
                at = position.inputs.get((topic, self._task.partition))
                if topic in self._task.source_topics and at is not None:
                    known[store] = at
        return known

    def _allowed(self, columns: PartitionColumns) -> PartitionColumns:
        """Returns the records that the application has committed; the others are read again later."""
        limit = self._limits.get(columns.topic)
        if limit is None or not len(columns) or columns.offsets[-1] < limit:
            return columns
        self._reader.unassign([columns.topic_partition])
        self._held_back.add(columns.topic)
        # Before the limit there are only markers.
        return columns.before(limit)

    def _is_from_before_a_reset(self) -> bool:
        runs = self._runs()
        return runs.are_known and self._run < runs.reset

    def _check_ends(self) -> None:
        checked_at_ms = int(time.time() * 1000)
        ends = self.ends()
        self._checked_at = time.monotonic()
        self._limits = {
            topic: ends[store] for store, topic in self._task.changelogs.items() if topic in self._task.source_topics
        }
        behind = {store: max(end - self._replays[store].position, 0) for store, end in ends.items()}
        self._lag = sum(behind.values())
        if not self._lag:
            self._complete_at_ms = checked_at_ms
        for topic in [topic for topic in self._held_back if behind[self._store_of[topic]]]:
            position = self._replays[self._store_of[topic]].position
            self._reader.assign({(topic, self._task.partition): position})
            self._held_back.discard(topic)


def copied_stores(stores: Sequence[StoreSpec], application_id: str) -> dict[str, str]:
    """Returns the changelog topic of each store that a standby can copy: of those on disk.

    A store in memory, or one of the user's own, is restored by the task itself.
    """
    return {
        store.name: topic
        for store in stores
        if store.is_on_disk and (topic := store.changelog_topic(application_id)) is not None
    }
