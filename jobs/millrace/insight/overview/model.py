"""What an overview says about applications: plain data, ready to be shown, with nothing to be asked any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from millrace.insight.overview.graph import Graph


class Trend(StrEnum):
    """Where the lag is going."""

    UNKNOWN = "unknown"
    STEADY = "steady"
    GROWING = "growing"
    FALLING = "falling"


@dataclass(frozen=True, kw_only=True)
class LagPoint:
    """The lag at one look.

    Args:
        at: seconds since the epoch.
        lag: records behind.
    """

    at: float
    lag: int


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """A restoration that goes on.

    Args:
        remaining: changelog records that are still to be applied.
        rate: how many are applied per second.
        eta_s: seconds until it ends at that rate, where the rate is known.
    """

    remaining: int
    rate: float
    eta_s: float | None


@dataclass(frozen=True, kw_only=True)
class SavepointView:
    """One savepoint.

    Args:
        name: its name.
        state: ``COMPLETED``, ``IN_PROGRESS`` or ``FAILED``.
        created_at: seconds since the epoch.
        size: bytes of its files.
        reason: why it was taken, or why it failed.
    """

    name: str
    state: str
    created_at: float
    size: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Savepoints:
    """The savepoints of an application, the newest first.

    Args:
        known: whether they have been read.
        all: every one, in whatever state.
        problem: why they could not be read; empty where they could.
    """

    known: bool = False
    all: tuple[SavepointView, ...] = ()
    problem: str = ""

    @property
    def complete(self) -> tuple[SavepointView, ...]:
        """Those that can be restored, the newest first."""
        return tuple(each for each in self.all if each.state == "COMPLETED")


@dataclass(frozen=True, kw_only=True)
class TransactionsView:
    """Transactions of one outcome.

    Args:
        outcome: ``committed``, ``aborted`` or ``fenced``.
        total: since the driver started.
        rate: per second, where it was looked twice.
    """

    outcome: str
    total: int
    rate: float | None


@dataclass(frozen=True, kw_only=True)
class DeadLettersView:
    """Dead-letter records.

    Args:
        topic: where they go; empty where the application has no such topic.
        written: how many since the driver started, where known.
    """

    topic: str
    written: int | None


@dataclass(frozen=True, kw_only=True)
class TaskView:
    """One task.

    Args:
        id: ``<sub-topology>_<partition>``.
        sub_topology: number of its sub-topology.
        state: its state, as Kafka Streams names it.
        worker: ``host/pid`` of the worker that has it; empty where none has.
        remaining: changelog records that it has still to apply.
        rate: how many it applies per second.
        eta_s: seconds until it is restored, where known.
        entries: in its stores, where known.
        bytes: of its stores, where known.
        failed_attempts: at its batches, since the driver started.
    """

    id: str
    sub_topology: int
    state: str
    worker: str
    remaining: int = 0
    rate: float = 0.0
    eta_s: float | None = None
    entries: int | None = None
    bytes: int | None = None
    failed_attempts: int = 0


@dataclass(frozen=True, kw_only=True)
class StoreView:
    """One store over all tasks.

    Args:
        name: its name.
        kind: ``key-value``, ``window``, ``session`` and so on; empty where the topology is not known.
        sub_topology: number of its sub-topology.
        tasks: how many tasks have a part of it.
        entries: estimated number.
        bytes: on disk.
    """

    name: str
    kind: str
    sub_topology: int
    tasks: int
    entries: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class InputView:
    """One input partition.

    Args:
        topic: the topic.
        partition: the partition.
        offset: where the application is.
        lag: records behind, up to the last stable offset, where known.
        last_stable: up to where it may be read, where known.
        high_watermark: where its log ends, records of open transactions included, where known.
        held_back_s: for how long the application has waited at the last stable offset for a transaction to end.
    """

    topic: str
    partition: int
    offset: int
    lag: int | None
    last_stable: int | None = None
    high_watermark: int | None = None
    held_back_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class JournalEntry:
    """Something that an operation did.

    Args:
        at: when, ISO 8601.
        operation: which operation.
        what: what it did.
        details: the rest, in words.
    """

    at: str
    operation: str
    what: str
    details: str


@dataclass(frozen=True, kw_only=True)
class OperationView:
    """A multi-step operation.

    Args:
        id: its id.
        kind: what it is.
        state: ``UNFINISHED``, ``COMPLETED`` or ``ABANDONED``.
        begun_at: when, ISO 8601.
        ended_at: when; empty before.
        step: the step that was begun last.
        reason: why it was done.
        error: why that step failed; empty where it did not.
    """

    id: str
    kind: str
    state: str
    begun_at: str
    ended_at: str
    step: str
    reason: str
    error: str


@dataclass(frozen=True, kw_only=True)
class ApplicationOverview:
    """One application at a glance.

    Args:
        name: its name.
        verdict: what a supervisor thinks of it, see :class:`millrace.launch.Verdict`.
        reason: why, as a code, see :class:`millrace.launch.Reason`.
        text: why, in words.
        remedy: what the operator should do now; empty where nothing is to be done.
        problem: what could not be read of it; empty where everything could.
        at: when it was looked, seconds since the epoch.
        state: its own state, where it answered.
        paused: whether it is paused.
        desired: ``running`` or ``stopped``, as the last operation asked for.
        lag: records behind, where known.
        lag_trend: where the lag is going.
        lag_points: the lag at the last probes, oldest first.
        rate: input records per second; over the last probes or, at the first, since the driver started.
        records: input records processed since the driver started.
        last_commit_at: when an offset was committed last, seconds since the epoch.
        restarts: of the driver, in a row.
        query_restarts: of queries by the driver since it started.
        driver: ``host/pid`` of the driver.
        driver_epoch: its number.
        started_at: when it started, seconds since the epoch.
        supervised_by: run and try of the supervising task; empty where nothing supervises it.
        guarantee: ``exactly_once_v2`` or ``at_least_once``.
        savepoints: its savepoints.
        recovery: the restoration that goes on, where one does.
        transactions: by outcome.
        dead_letters: its dead-letter records.
        tasks: how many tasks it has.
    """

    name: str
    verdict: str
    reason: str
    text: str
    remedy: str = ""
    problem: str = ""
    at: float = 0.0
    state: str = ""
    paused: bool = False
    desired: str = ""
    lag: int | None = None
    lag_trend: Trend = Trend.UNKNOWN
    lag_points: tuple[LagPoint, ...] = ()
    rate: float | None = None
    records: int | None = None
    last_commit_at: float | None = None
    restarts: int = 0
    query_restarts: int = 0
    driver: str = ""
    driver_epoch: int | None = None
    started_at: float | None = None
    supervised_by: str = ""
    guarantee: str = ""
    savepoints: Savepoints = field(default_factory=Savepoints)
    recovery: Recovery | None = None
    transactions: tuple[TransactionsView, ...] = ()
    dead_letters: DeadLettersView = field(default_factory=lambda: DeadLettersView(topic="", written=None))
    tasks: int = 0


@dataclass(frozen=True, kw_only=True)
class ApplicationDetails:
    """Everything that is known of one application.

    Args:
        overview: it at a glance.
        description: what its specification says that it does.
        task_list: its tasks.
        stores: its stores, the largest first.
        inputs: its input partitions, the furthest behind first.
        graph: its topology, where a driver has told it.
        journal: what operations did, the newest first.
        operations: multi-step operations, the newest first.
        dropped: records that went no further since the driver started, by reason.
        log: the driver's log file.
    """

    overview: ApplicationOverview
    description: str = ""
    task_list: tuple[TaskView, ...] = ()
    stores: tuple[StoreView, ...] = ()
    inputs: tuple[InputView, ...] = ()
    graph: Graph | None = None
    journal: tuple[JournalEntry, ...] = ()
    operations: tuple[OperationView, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    log: str = ""

    @property
    def unfinished(self) -> OperationView | None:
        """The multi-step operation that has not ended."""
        return next((each for each in self.operations if each.state == "UNFINISHED"), None)
