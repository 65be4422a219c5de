"""The metrics of one application, gathered by its driver and exposed to Prometheus."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from millrace.errors import ConfigurationError
from millrace.metrics import definitions as m
from millrace.metrics.definitions import METRICS, MetricDefinition, MetricKind, Phase, TransactionOutcome
from millrace.metrics.histograms import BucketCounts, no_observations, observe
from millrace.metrics.statistics import TaskStatistics

_REMEMBERED_BATCHES = 1_024

Labels = tuple[str, ...]


def records_lag(committed: int | None, end: int | None) -> int | None:
    """Returns the lag of a partition, never negative; ``None`` where an offset is missing.

    Args:
        committed: the group's offset, read before ``end``; ``None`` or a negative marker (-1001 and the like) for none.
        end: the partition's end offset (the last stable one); likewise.
    """
    if committed is None or end is None or committed < 0 or end < 0:
        return None
    return max(0, end - committed)


@dataclass(frozen=True, kw_only=True)
class StreamThreadTotals:
    """The tasks of a stream thread, and its totals since it began.

    Args:
        tasks: how many tasks it has.
        seconds: time by activity, seconds.
        standbys: how many standby copies it keeps.
        standby_lag: changelog offsets that these lack; ``None`` where that is not known of one.
        commits: commits of tasks.
        commit_seconds: from the begin to the end of each of them, added up, seconds.
    """

    tasks: int
    seconds: Mapping[str, float]
    commits: int
    commit_seconds: float
    standbys: int = 0
    standby_lag: int | None = None


class ApplicationMetrics(Collector):
    """State of all metrics of one application; methods may be called from any thread.

    Tasks run in several processes, so nothing is counted there: each reports a :class:`TaskStatistics` per batch,
    and only the driver adds up. A series exists from the first report of its task, store or partition until
    :meth:`discard`, :meth:`keep_only` or :meth:`set_lag` ends it. The totals begin at 0 when the driver starts, as
    Prometheus expects of counters.

    Args:
        application_id: value of the label that every series has.
    """

    def __init__(self, application_id: str) -> None:
        self.application_id = application_id
        self.registry = CollectorRegistry(auto_describe=False)
        self._lock = threading.Lock()
        self._numbers: dict[str, dict[Labels, float]] = {
            metric.name: {} for metric in METRICS if metric.kind is not MetricKind.HISTOGRAM
        }
        self._histograms: dict[str, dict[Labels, BucketCounts]] = {
            metric.name: {} for metric in METRICS if metric.kind is MetricKind.HISTOGRAM
        }
        self._seen: dict[tuple[str, str], _SeenBatches] = {}
        self.registry.register(self)

    def record(self, statistics: TaskStatistics) -> bool:
        """Adds one row of a task. A row of a batch that was reported before (a repeated Spark task) changes nothing.

        Returns:
            Whether the row was new.

        Raises:
            ConfigurationError: its histograms have other buckets than this version's; nothing is added.
        """
        row = statistics
        task = (row.subtopology, row.task_id)
        with self._lock:
            merged = {
                metric.name: self._histograms[metric.name].get(task, no_observations(metric.buckets)).plus(observed)
                for metric, observed in (
                    (m.PROCESS_LATENCY, row.process_latency),
                    (m.COMMIT_LATENCY, row.commit_latency),
                    (m.END_TO_END_LATENCY, row.end_to_end_latency),
                    (m.RECORD_LATENESS, row.lateness),
                )
            }
            if not self._seen.setdefault((row.task_id, row.run_id), _SeenBatches()).add(row.batch_id):
                return False
            for name, histogram in merged.items():
                self._histograms[name][task] = histogram
            self._add_counts(task, row)
            self._set_sizes(task, row)
            return True

    def count_transaction(self, task_id: str, outcome: TransactionOutcome) -> None:
        """Counts a transaction that ended without a row of statistics: the task that aborts or is fenced raises."""
        with self._lock:
            self._add(m.TRANSACTIONS_TOTAL, (task_id.partition("_")[0], task_id, outcome), 1)

    def set_stream_threads(self, threads: Mapping[str, StreamThreadTotals], *, wanted: int) -> None:
        """Sets what stream threads have and do, by their numbers; those not in ``threads`` disappear.

        Args:
            threads: those that are connected.
            wanted: how many there are to be.
        """
        shown = (
            m.STREAM_THREAD_TASKS,
            m.STREAM_THREAD_SECONDS_TOTAL,
            m.STREAM_THREAD_COMMITS_TOTAL,
            m.STREAM_THREAD_COMMIT_SECONDS_TOTAL,
            m.STREAM_THREAD_STANDBYS,
            m.STREAM_THREAD_STANDBY_LAG,
        )
        with self._lock:
            for metric in shown:
                self._numbers[metric.name].clear()
            self._set(m.STREAM_THREADS, (), len(threads))
            self._set(m.STREAM_THREADS_WANTED, (), wanted)
            for thread, totals in threads.items():
                self._set(m.STREAM_THREAD_TASKS, (thread,), totals.tasks)
                self._set(m.STREAM_THREAD_STANDBYS, (thread,), totals.standbys)
                if totals.standby_lag is not None:
                    self._set(m.STREAM_THREAD_STANDBY_LAG, (thread,), totals.standby_lag)
                self._set(m.STREAM_THREAD_COMMITS_TOTAL, (thread,), totals.commits)
                self._set(m.STREAM_THREAD_COMMIT_SECONDS_TOTAL, (thread,), totals.commit_seconds)
                for activity, seconds in totals.seconds.items():
                    self._set(m.STREAM_THREAD_SECONDS_TOTAL, (thread, activity), seconds)

    def set_restore_progress(self, task_id: str, *, remaining: int, records_per_second: float) -> None:
        """Progress of a restore that still runs."""
        task = (task_id.partition("_")[0], task_id)
        with self._lock:
            self._set(m.RESTORE_REMAINING, task, remaining)
            self._set(m.RESTORE_RATE, task, records_per_second)

    def set_lag(self, subtopology: int, lags: Mapping[tuple[str, int], int | None]) -> None:
        """Sets the lag of all input partitions of a sub-topology; those not in ``lags`` disappear.

        Args:
            subtopology: number of the sub-topology.
            lags: (topic, partition) to records, as :func:`records_lag` gives them; ``None`` is exposed as no series.
        """
        label = str(subtopology)
        with self._lock:
            series = self._numbers[m.RECORDS_LAG.name]
            for labels in [labels for labels in series if labels[0] == label]:
                del series[labels]
            for (topic, partition), lag in lags.items():
                if lag is not None:
                    series[label, topic, str(partition)] = max(0, lag)

    def set_input_ends(self, subtopology: int, ends: Mapping[tuple[str, int], tuple[int, int, float]]) -> None:
        """Sets both ends of all input partitions of a sub-topology; those not in ``ends`` disappear.

        Args:
            subtopology: number of the sub-topology.
            ends: (topic, partition) to last stable offset, high watermark, and for how long the application has been
                held back between them, seconds.
        """
        label = str(subtopology)
        with self._lock:
            for index, metric in enumerate((m.LAST_STABLE_OFFSET, m.HIGH_WATERMARK, m.READER_HELD_BACK)):
                series = self._numbers[metric.name]
                for labels in [labels for labels in series if labels[0] == label]:
                    del series[labels]
                for (topic, partition), values in ends.items():
                    series[label, topic, str(partition)] = values[index]

    def set_heard(self, *, broker_answered_at: float | None, last_commits: Mapping[int, float]) -> None:
        """Sets when a broker last answered, and when each sub-topology last committed, seconds since the epoch."""
        with self._lock:
            if broker_answered_at is not None:
                self._set(m.BROKER_LAST_ANSWER, (), broker_answered_at)
            for subtopology, at in last_commits.items():
                self._set(m.LAST_COMMIT, (str(subtopology),), at)

    def observe_batch(self, subtopology: int, duration_s: float) -> None:
        """Adds the duration of one micro-batch of a query, seconds."""
        labels = (str(subtopology),)
        with self._lock:
            series = self._histograms[m.BATCH_DURATION.name]
            before = series.get(labels, no_observations(m.BATCH_DURATION.buckets))
            series[labels] = before.plus(observe([duration_s], m.BATCH_DURATION.buckets))
            self._add(m.QUERY_RESTARTS_TOTAL, labels, 0)

    def count_query_restart(self, subtopology: int) -> None:
        """Counts a start of a query that had died."""
        with self._lock:
            self._add(m.QUERY_RESTARTS_TOTAL, (str(subtopology),), 1)

    def set_application(self, *, state: str, driver_epoch: int, paused: bool) -> None:
        """Sets what holds for the application as a whole.

        Raises:
            ConfigurationError: there is no such state.
        """
        if state not in m.APPLICATION_STATES:
            raise ConfigurationError(f"There is no state {state!r}; there are {', '.join(m.APPLICATION_STATES)}.")
        with self._lock:
            for known in m.APPLICATION_STATES:
                self._set(m.APPLICATION_STATE, (known,), float(known == state))
            self._set(m.DRIVER_EPOCH, (), driver_epoch)
            self._set(m.PAUSED, (), float(paused))

    def discard(self, task_id: str) -> None:
        """Ends all series of a task the application does not have any more, or that another process took over."""
        self._discard(lambda known: known == task_id)

    def keep_only(self, task_ids: Collection[str]) -> None:
        """Ends the series of all tasks but these."""
        self._discard(lambda known: known not in task_ids)

    def exposition(self) -> bytes:
        """Returns all series in Prometheus' text format (version 0.0.4 or later, UTF-8)."""
        return generate_latest(self.registry)

    def collect(self) -> Iterable[Metric]:
        """Returns one consistent view of all families, for prometheus-client."""
        with self._lock:
            return list(self._families())

    def _discard(self, gone: Callable[[str], bool]) -> None:
        everything: dict[str, dict[Labels, Any]] = {**self._numbers, **self._histograms}
        with self._lock:
            for metric in METRICS:
                if "task" not in metric.labels:
                    continue
                index = metric.labels.index("task")
                series = everything[metric.name]
                for labels in [labels for labels in series if gone(labels[index])]:
                    del series[labels]
            for key in [key for key in self._seen if gone(key[0])]:
                del self._seen[key]

    def _add_counts(self, task: Labels, row: TaskStatistics) -> None:
        self._add(m.PROCESS_TOTAL, task, row.records_in)
        self._add(m.BATCHES_TOTAL, task, 1)
        self._add(m.DEAD_LETTERS_TOTAL, task, row.dead_letters)
        self._add(m.RESTORE_TOTAL, task, row.restored)
        self._add(m.STATE_REBUILDS_TOTAL, task, row.rebuilds)
        self._add(m.FAILED_ATTEMPTS_TOTAL, task, row.failed_attempts)
        for topic, count in row.records_out.items():
            self._add(m.RECORDS_PRODUCED_TOTAL, (*task, topic), count)
        # Every reason, outcome and phase has its series from the start: an increase from nothing to 1 is no increase
        # to Prometheus, one from 0 is.
        for reason in m.DropReason:
            self._add(m.DROPPED_RECORDS_TOTAL, (*task, reason), row.dropped.get(reason, 0))
        for silent in m.SilentDrop:
            self._add(m.SILENTLY_DROPPED_RECORDS_TOTAL, (*task, silent), row.silently_dropped.get(silent, 0))
        for phase in Phase:
            self._add(m.PHASE_SECONDS_TOTAL, (*task, phase), row.phases.get(phase, 0.0))
        for outcome, count in (
            (TransactionOutcome.COMMITTED, row.transactions_committed),
            (TransactionOutcome.ABORTED, 0),
            (TransactionOutcome.FENCED, 0),
        ):
            self._add(m.TRANSACTIONS_TOTAL, (*task, outcome), count)

    def _set_sizes(self, task: Labels, row: TaskStatistics) -> None:
        self._set(m.RESTORE_REMAINING, task, 0)
        if row.restored and row.restore_s > 0:
            self._set(m.RESTORE_RATE, task, row.restored / row.restore_s)
        for store, entries in row.store_entries.items():
            self._set(m.STORE_ENTRIES, (*task, store), entries)
        for store, size in row.store_bytes.items():
            self._set(m.STORE_BYTES, (*task, store), size)
        for store, stream_time in row.stream_times.items():
            self._set(m.STREAM_TIME, (*task, store), stream_time / 1000)
        for store, results in row.held_back.items():
            self._set(m.HELD_BACK, (*task, store), results)
            if store in row.held_back_since:
                self._set(m.HELD_BACK_SINCE, (*task, store), row.held_back_since[store] / 1000)
            else:
                self._drop(m.HELD_BACK_SINCE, (*task, store))
        for store, size in row.held_back_bytes.items():
            self._set(m.HELD_BACK_BYTES, (*task, store), size)
        if row.lateness_max_ms is not None:
            self._set(m.RECORD_LATENESS_MAX, task, max(0, row.lateness_max_ms) / 1000)

    def _add(self, metric: MetricDefinition, labels: Labels, amount: float) -> None:
        series = self._numbers[metric.name]
        key = tuple(map(str, labels))
        series[key] = series.get(key, 0.0) + amount

    def _set(self, metric: MetricDefinition, labels: Labels, value: float) -> None:
        self._numbers[metric.name][tuple(map(str, labels))] = float(value)

    def _drop(self, metric: MetricDefinition, labels: Labels) -> None:
        self._numbers[metric.name].pop(tuple(map(str, labels)), None)

    def _families(self) -> Iterator[Metric]:
        for metric in METRICS:
            labels = ["application_id", *metric.labels]
            unit = "seconds" if metric.name.removesuffix("_total").endswith("_seconds") else ""
            unit = "bytes" if metric.name.endswith("_bytes") else unit
            if metric.kind is MetricKind.HISTOGRAM:
                histogram = HistogramMetricFamily(metric.name, metric.help, labels=labels, unit=unit)
                for values, counts in self._histograms[metric.name].items():
                    histogram.add_metric([self.application_id, *values], counts.cumulative(), counts.total)
                yield histogram
                continue
            family: CounterMetricFamily | GaugeMetricFamily
            if metric.kind is MetricKind.COUNTER:
                family = CounterMetricFamily(metric.name.removesuffix("_total"), metric.help, labels=labels, unit=unit)
            else:
                family = GaugeMetricFamily(metric.name, metric.help, labels=labels, unit=unit)
            for values, number in self._numbers[metric.name].items():
                family.add_metric([self.application_id, *values], number)
            yield family


class _SeenBatches:
    """The batches of one task and run that were added; a batch older than all remembered ones counts as seen."""

    def __init__(self) -> None:
        self._floor = -1
        self._ids: set[int] = set()

    def add(self, batch_id: int) -> bool:
        if batch_id <= self._floor or batch_id in self._ids:
            return False
        self._ids.add(batch_id)
        if len(self._ids) > _REMEMBERED_BATCHES:
            oldest = min(self._ids)
            self._ids.remove(oldest)
            self._floor = max(self._floor, oldest)
        return True
