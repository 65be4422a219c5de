"""The driver's reporter: builds the application's status and publishes it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from millrace.driver.lifecycle import Lifecycle
from millrace.driver.progress import input_ends, lag_by_partition, observe
from millrace.driver.query import Query, QueryProgress, is_alive
from millrace.driver.status import (
    ApplicationStatus,
    DriverIdentity,
    InputEnd,
    StreamThreadStatus,
    SubTopologyStatus,
)
from millrace.topology.topic_partition import TopicPartition

T = TypeVar("T")


class Publisher(Protocol):
    """The part of ``StatusPublisher`` that the driver needs."""

    @property
    def epoch(self) -> int:
        """The epoch of this driver; 0 before :meth:`open`."""

    def peek(self) -> ApplicationStatus | None:
        """Returns the application's last status; fences no driver."""

    def open(self) -> ApplicationStatus | None:
        """Fences older drivers, takes the next epoch, and returns the last status."""

    def publish(self, status: ApplicationStatus) -> None:
        """Writes the status; raises ``DriverFencedError`` once a newer driver has taken over."""

    def close(self) -> None:
        """Closes the producer. Idempotent."""


@dataclass(frozen=True, kw_only=True)
class Application:
    """The facts about an application that do not change while its driver runs.

    Args:
        application_id: name of the application.
        run_id: identifies this run.
        topology_fingerprint: short hash of the topology.
        topology_summary: the topology as JSON-compatible data.
        processing_guarantee: ``exactly_once_v2`` or ``at_least_once``.
        commit_interval_ms: time between two commits of a task.
    """

    application_id: str
    run_id: str
    topology_fingerprint: str = ""
    topology_summary: Mapping[str, Any] = field(default_factory=dict)
    processing_guarantee: str = ""
    commit_interval_ms: int = 0


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The facts that are known after older attempts were fenced and the committed offsets were read.

    Args:
        queries: the queries to run, not started.
        transactional_ids: every id that their tasks may use.
        offsets: where each input partition starts, by sub-topology.
        topic_ids: UUID of each input topic.
        partitions: number of partitions of each input topic.
        changelog_ids: UUID of each changelog topic.
        global_topic_ids: UUID of each topic of a global store.
    """

    queries: tuple[Query, ...]
    transactional_ids: tuple[str, ...] = ()
    offsets: Mapping[int, Mapping[TopicPartition, int]] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)
    changelog_ids: Mapping[str, str] = field(default_factory=dict)
    global_topic_ids: Mapping[str, str] = field(default_factory=dict)


class StatusReporter:
    """The reporter that builds an :class:`ApplicationStatus` from the queries' progress and publishes it. Thread-safe.

    Args:
        application: what does not change.
        lifecycle: the state of the application.
        publisher: where the status goes.
        heartbeat_interval_ms: stated in the record, so that readers know when a heartbeat is overdue.
        end_offsets: last stable offsets of all input partitions now.
        high_watermarks: ends of their logs now; called after ``end_offsets``.
        stream_threads: the stream threads now, and that there are fewer than there are to be.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        application: Application,
        lifecycle: Lifecycle,
        publisher: Publisher,
        *,
        heartbeat_interval_ms: int,
        end_offsets: Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int]],
        high_watermarks: Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int]] = lambda _: {},
        stream_threads: Callable[[], tuple[Sequence[StreamThreadStatus], str]] = lambda: ((), ""),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._stream_threads = stream_threads
        self._application = application
        self._lifecycle = lifecycle
        self._publisher = publisher
        self._published_at = float("-inf")
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._read_end_offsets = end_offsets
        self._read_high_watermarks = high_watermarks
        self._clock = clock
        self._lock = threading.RLock()
        self._publishing = threading.Lock()
        self._driver = DriverIdentity.of_this_process()
        self._started_at = clock()
        self._beat_at = self._started_at
        self._reason = self._remedy = self._control_address = ""
        self._paused = False
        self._previous: ApplicationStatus | None = None
        self._prepared: Prepared | None = None
        self._ends: dict[TopicPartition, int] = {}
        self._input_ends: dict[TopicPartition, InputEnd] = {}
        self._ends_at: float | None = None
        self._answered_at: float | None = None
        self._positions: dict[TopicPartition, int] = {}
        self._observed: dict[int, SubTopologyStatus] = {}
        self._restarts: dict[int, int] = {}

    @property
    def prepared(self) -> Prepared | None:
        """The facts that :meth:`set_prepared` was called with."""
        return self._prepared

    def set_reason(self, reason: str, remedy: str = "") -> bool:
        """Sets why the application is in its state, and the remedy; returns whether either is new."""
        with self._lock:
            news = (self._reason, self._remedy) != (reason, remedy)
            self._reason, self._remedy = reason, remedy
            return news

    def set_control_address(self, address: str) -> None:
        """Sets the address of the control plane."""
        with self._lock:
            self._control_address = address

    def set_paused(self, *, paused: bool) -> None:
        """Sets whether the application is paused; lag from a pause is counted from the pause's end."""
        with self._lock:
            self._paused = paused
            self._observed = {
                number: each.model_copy(update={"lag_since": None}) for number, each in self._observed.items()
            }

    def set_previous(self, previous: ApplicationStatus | None) -> None:
        """Sets the last status of an older driver: until :meth:`set_prepared`, its ids and offsets are published.

        Should this driver die before it has fenced those ids, the next one still finds them.
        """
        with self._lock:
            self._previous = previous

    def set_prepared(self, prepared: Prepared) -> None:
        """Sets the queries and their starting offsets."""
        with self._lock:
            self._prepared = prepared
            self._positions = {key: offset for each in prepared.offsets.values() for key, offset in each.items()}

    def set_restarts(self, sub_topology: int, restarts: int) -> None:
        """Sets the number of restarts of a query without progress."""
        with self._lock:
            self._restarts[sub_topology] = restarts

    def broker_answered(self) -> None:
        """Records that a broker has just answered the driver."""
        with self._lock:
            self._answered_at = self._clock()

    def pulse(self) -> None:
        """Records that the driver is alive, even if it cannot publish that."""
        with self._lock:
            self._beat_at = self._clock()

    def beat(self) -> None:
        """Refreshes the ends of the inputs, then publishes. Called by the heartbeat thread.

        Raises:
            DriverFencedError: a newer driver has taken over.
            MillraceError: the broker could not be asked, or nothing was written; the next call may succeed.
        """
        self._refresh_positions()
        topic_partitions = list(self._positions)
        ends = self._read_end_offsets(topic_partitions) if topic_partitions else {}
        if topic_partitions:
            self.broker_answered()
        high = self._read_high_watermarks(topic_partitions) if topic_partitions else {}
        with self._lock:
            self._ends = dict(ends)
            if topic_partitions:
                now = self._ends_at = self._answered_at = self._clock()
                self._input_ends = input_ends(self._input_ends, self._positions, ends, high, now=now)
        self.publish()

    def publish(self) -> None:
        """Publishes the current status. Raises as :meth:`beat`."""
        # Built under the lock that orders publications, so that a slow thread cannot write an older state last.
        with self._publishing:
            if self._publisher.epoch:
                self._publisher.publish(_published(self.status(), self._clock()))
                self._published_at = time_awake_or_asleep()
                self.broker_answered()

    @property
    def age_s(self) -> float:
        """Seconds since the last publication; infinite before the first."""
        return time_awake_or_asleep() - self._published_at

    def status(self) -> ApplicationStatus:
        """Returns the current status; its ``updated_at`` is the last heartbeat's, from which health is judged."""
        progresses = self._refresh_positions()
        threads, shortage = self._stream_threads()
        with self._lock:
            ends = {**{p: end for each in progresses.values() for p, end in each.end_offsets.items()}, **self._ends}
            return self._base().model_copy(
                update={
                    "lag": _nested(lag_by_partition(self._positions, ends)),
                    "lag_at": self._ends_at,
                    "input_ends": _nested(self._input_ends),
                    "broker_answered_at": self._answered_at,
                    "progress": dict(self._observed),
                    "stream_threads": list(threads),
                    "shortage": shortage,
                    "task_hosts": {
                        task: host for each in progresses.values() for task, host in each.task_hosts.items()
                    },
                }
            )

    def _refresh_positions(self) -> dict[int, QueryProgress]:
        queries = self._prepared.queries if self._prepared else ()
        starts = self._prepared.offsets if self._prepared else {}
        progresses = {query.sub_topology: query.progress for query in queries}
        # Until its first batch a query may not know its positions; a lag from the start on must show.
        progresses = {
            number: replace(each, positions={**starts.get(number, {}), **each.positions})
            for number, each in progresses.items()
        }
        active = {query.sub_topology: is_alive(query) for query in queries}
        with self._lock:
            for number, progress in progresses.items():
                moved = any(self._positions.get(key) != offset for key, offset in progress.positions.items())
                self._positions.update(progress.positions)
                self._observed[number] = observe(
                    self._observed.get(number),
                    progress,
                    {**progress.end_offsets, **self._ends},
                    moved=moved,
                    active=active[number],
                    restarts=self._restarts.get(number, 0),
                    now=self._clock(),
                )
        return progresses

    def _base(self) -> ApplicationStatus:
        application, prepared, previous = self._application, self._prepared, self._previous
        if prepared is not None:
            ids = list(prepared.transactional_ids)
            offsets = _nested(self._positions)
            topic_ids, partitions = dict(prepared.topic_ids), dict(prepared.partitions)
            changelog_ids = dict(prepared.changelog_ids)
            # Only now the state is this topology's: until it was accepted, the next start compares with the one before.
            fingerprint, summary = application.topology_fingerprint, dict(application.topology_summary)
        elif previous is not None:
            ids, offsets = previous.transactional_ids, previous.offsets
            topic_ids, partitions = previous.topic_ids, previous.partitions
            changelog_ids = previous.changelog_topic_ids
            fingerprint, summary = previous.topology_fingerprint, previous.topology_summary
        else:
            ids, offsets, topic_ids, partitions, fingerprint, summary = [], {}, {}, {}, "", {}
            changelog_ids = {}
        return ApplicationStatus(
            application_id=application.application_id,
            state=self._lifecycle.state,
            reason=self._reason,
            remedy=self._remedy,
            paused=self._paused,
            control_address=self._control_address,
            driver=self._driver,
            driver_epoch=self._publisher.epoch,
            run_id=application.run_id,
            topology_fingerprint=fingerprint,
            topology_summary=summary,
            transactional_ids=ids,
            offsets=offsets,
            topic_ids=topic_ids,
            partitions=partitions,
            changelog_topic_ids=changelog_ids,
            global_topic_ids={} if prepared is None else dict(prepared.global_topic_ids),
            processing_guarantee=application.processing_guarantee,
            commit_interval_ms=application.commit_interval_ms,
            heartbeat_interval_ms=self._heartbeat_interval_ms,
            started_at=self._started_at,
            updated_at=self._beat_at,
        )


def _published(status: ApplicationStatus, now: float) -> ApplicationStatus:
    """Returns the status for the topic: input ends only where the two differ, which keeps the record small."""
    ends = {
        topic: differing
        for topic, of_topic in status.input_ends.items()
        if (
            differing := {partition: end for partition, end in of_topic.items() if end.high_watermark > end.last_stable}
        )
    }
    return status.model_copy(update={"updated_at": now, "input_ends": ends})


def time_awake_or_asleep() -> float:
    """Returns the seconds of a clock that also runs while the host is suspended, if the system has one."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def _nested(values: Mapping[TopicPartition, T]) -> dict[str, dict[int, T]]:
    nested: dict[str, dict[int, T]] = {}
    for (topic, partition), value in sorted(values.items()):
        nested.setdefault(topic, {})[partition] = value
    return nested
