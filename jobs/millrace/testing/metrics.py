"""The metrics of a topology under test: those that do not depend on a broker or on how long something took."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from millrace.errors import ConfigurationError
from millrace.metrics import METRICS, DropReason, MetricDefinition
from millrace.metrics import definitions as m
from millrace.task.processor import HeldBack

Labels = tuple[tuple[str, str], ...]

_COUNTED = (
    m.PROCESS_TOTAL,
    m.RECORDS_PRODUCED_TOTAL,
    m.DROPPED_RECORDS_TOTAL,
    m.DEAD_LETTERS_TOTAL,
    m.STORE_ENTRIES,
    m.STREAM_TIME,
    m.HELD_BACK,
    m.RECORD_LATENESS_MAX,
)


@dataclass
class TaskCounts:
    """The counts of a task since the start.

    Args:
        read: input records, dropped ones included.
        written: records by sink topic.
        dropped: records by reason.
        dead_letters: dead-letter records.
        latest_ms: greatest lateness of the last batch, milliseconds; ``None`` before the first.
    """

    read: int = 0
    written: Counter[str] = field(default_factory=Counter)
    dropped: Counter[DropReason] = field(default_factory=Counter)
    dead_letters: int = 0
    latest_ms: int | None = None


@dataclass(frozen=True)
class TaskSizes:
    """The sizes of what a task holds now.

    Args:
        entries: by store, approximate.
        stream_times: milliseconds, by store.
        held_back: what waits, by store.
    """

    entries: Mapping[str, int]
    stream_times: Mapping[str, int]
    held_back: Mapping[str, HeldBack]


def samples(tasks: Mapping[str, tuple[TaskCounts, TaskSizes]]) -> dict[str, dict[Labels, float]]:
    """Returns the series of each metric, by its name: labels (name and value, in the metric's order) to number.

    Args:
        tasks: by the task's name.
    """
    found: defaultdict[str, dict[Labels, float]] = defaultdict(dict)
    for metric in _COUNTED:
        found[metric.name] = {}
    for task, (counts, sizes) in tasks.items():
        for metric, labels, value in _of_task(counts, sizes):
            named = zip(metric.labels, (task.partition("_")[0], task, *labels), strict=True)
            found[metric.name][tuple(named)] = float(value)
    return dict(found)


def _of_task(counts: TaskCounts, sizes: TaskSizes) -> Iterator[tuple[MetricDefinition, tuple[str, ...], float]]:
    yield m.PROCESS_TOTAL, (), counts.read
    yield m.DEAD_LETTERS_TOTAL, (), counts.dead_letters
    for reason in DropReason:
        yield m.DROPPED_RECORDS_TOTAL, (reason.value,), counts.dropped[reason]
    for topic, count in counts.written.items():
        yield m.RECORDS_PRODUCED_TOTAL, (topic,), count
    for store, entries in sizes.entries.items():
        yield m.STORE_ENTRIES, (store,), entries
    for store, time_ms in sizes.stream_times.items():
        yield m.STREAM_TIME, (store,), time_ms / 1000
    for store, held_back in sizes.held_back.items():
        yield m.HELD_BACK, (store,), held_back.results
    if counts.latest_ms is not None:
        yield m.RECORD_LATENESS_MAX, (), max(0, counts.latest_ms) / 1000


def metric_by_name(name: str) -> MetricDefinition:
    """Returns the metric, by its own name or that which Kafka Streams gives it (``dropped-records-total``).

    Raises:
        ConfigurationError: there is none, or the test driver does not have it.
    """
    for metric in _COUNTED:
        if name == metric.name or name in metric.counterpart.partition(": ")[2].split(", "):
            return metric
    known = any(name == each.name or name in each.counterpart.partition(": ")[2].split(", ") for each in METRICS)
    offered = ", ".join(each.name for each in _COUNTED)
    raise ConfigurationError(
        f"The test driver does not measure {name}: it has {offered}."
        if known
        else f"There is no metric {name!r}; the test driver has {offered}.",
        remedy="take one of these; docs/metrics.md says what each is in Kafka Streams",
    )
