"""What an overview takes from a driver's ``/metrics``. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from millrace.errors import SerializationError
from millrace.metrics.definitions import (
    DEAD_LETTERS_TOTAL,
    DROPPED_RECORDS_TOTAL,
    FAILED_ATTEMPTS_TOTAL,
    PROCESS_TOTAL,
    QUERY_RESTARTS_TOTAL,
    RECORDS_PRODUCED_TOTAL,
    STORE_BYTES,
    STORE_ENTRIES,
    TRANSACTIONS_TOTAL,
)

_WANTED = tuple(
    metric.name
    for metric in (
        PROCESS_TOTAL,
        RECORDS_PRODUCED_TOTAL,
        TRANSACTIONS_TOTAL,
        DROPPED_RECORDS_TOTAL,
        DEAD_LETTERS_TOTAL,
        FAILED_ATTEMPTS_TOTAL,
        QUERY_RESTARTS_TOTAL,
        STORE_BYTES,
        STORE_ENTRIES,
    )
)
_SUB_TOPOLOGY = "subtopology"


@dataclass(frozen=True, kw_only=True)
class StoreSize:
    """A store's part in one task.

    Args:
        sub_topology: number of the sub-topology.
        entries: estimated number.
        bytes: on disk.
    """

    sub_topology: int
    entries: int = 0
    bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """Counters since the driver started, and sizes.

    Args:
        processed: input records, by sub-topology.
        produced: records written, by sub-topology and topic.
        transactions: by outcome.
        dropped: records that went no further, by reason.
        dead_letters: records written to the dead-letter topic.
        failed_attempts: by task.
        query_restarts: over all queries.
        store_sizes: by task and store.
    """

    processed: Mapping[int, int] = field(default_factory=dict)
    produced: Mapping[tuple[int, str], int] = field(default_factory=dict)
    transactions: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    dead_letters: int = 0
    failed_attempts: Mapping[str, int] = field(default_factory=dict)
    query_restarts: int = 0
    store_sizes: Mapping[tuple[str, str], StoreSize] = field(default_factory=dict)


def measurements(text: str) -> Measurements:
    """Read Prometheus' text format.

    Args:
        text: what ``/metrics`` answered.

    Raises:
        SerializationError: it is something else.
    """
    values: dict[str, list[tuple[Mapping[str, str], int]]] = {name: [] for name in _WANTED}
    # Histograms make most of the text and nothing of an overview.
    lines = "".join(f"{line}\n" for line in text.splitlines() if line.startswith(_WANTED))
    try:
        for family in text_string_to_metric_families(lines):
            for sample in family.samples:
                if sample.name in values:
                    values[sample.name].append((sample.labels, int(sample.value)))
        return _measurements(values)
    except (KeyError, ValueError) as error:
        raise SerializationError(
            f"The driver's metrics cannot be read: {type(error).__name__} {error}.",
            remedy="look at /metrics of its control plane",
        ) from error


def _measurements(values: Mapping[str, list[tuple[Mapping[str, str], int]]]) -> Measurements:
    def by(name: str, *labels: str) -> dict[tuple[str, ...], int]:
        sums: defaultdict[tuple[str, ...], int] = defaultdict(int)
        for found, value in values[name]:
            sums[tuple(found[label] for label in labels)] += value
        return dict(sums)

    entries = by(STORE_ENTRIES.name, "task", "store", _SUB_TOPOLOGY)
    sizes = by(STORE_BYTES.name, "task", "store", _SUB_TOPOLOGY)
    return Measurements(
        processed={int(number): value for (number,), value in by(PROCESS_TOTAL.name, _SUB_TOPOLOGY).items()},
        produced={
            (int(number), topic): value
            for (number, topic), value in by(RECORDS_PRODUCED_TOTAL.name, _SUB_TOPOLOGY, "topic").items()
        },
        transactions={outcome: value for (outcome,), value in by(TRANSACTIONS_TOTAL.name, "outcome").items()},
        dropped={reason: value for (reason,), value in by(DROPPED_RECORDS_TOTAL.name, "reason").items()},
        dead_letters=sum(by(DEAD_LETTERS_TOTAL.name).values()),
        failed_attempts={task: value for (task,), value in by(FAILED_ATTEMPTS_TOTAL.name, "task").items()},
        query_restarts=sum(by(QUERY_RESTARTS_TOTAL.name).values()),
        store_sizes={
            (task, store): StoreSize(
                sub_topology=int(number),
                entries=entries.get((task, store, number), 0),
                bytes=sizes.get((task, store, number), 0),
            )
            for task, store, number in sorted({*entries, *sizes})
        },
    )
