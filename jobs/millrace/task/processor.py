"""What a node's behaviour is written against: the processor, and its task's surroundings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from millrace.config import StreamsConfig
from millrace.state import KeyValueStore, SessionStore, WindowStore
from millrace.task.columns import IntArray
from millrace.task.failures import FailureHandler
from millrace.task.records import Records
from millrace.task.table_view import TableView
from millrace.topology.aggregators import Aggregator
from millrace.topology.stores import StoreSpec

Forwarded = Records | Mapping[str, Records] | None
"""Records for every child, records by child name, or nothing."""


class Processor(ABC):
    """One node of a task. It is called at most once per batch, with everything its parents forwarded, in order."""

    @abstractmethod
    def process(self, records: Records) -> Forwarded:
        """Processes records in their order and returns what goes on."""


@dataclass
class TaskContext:
    """What the processors of one task share. Lives as long as the task's stores are open.

    Args:
        config: the application's configuration.
        stores: specifications of the stores, by name.
        open_store: returns an open store by name.
        failures: what happens to records that cannot be read or processed; counts dropped ones.
        stream_times: stream time of each windowed operator, milliseconds, by the name of its store. Survives
            restarts, and topologies in which the operator has another name.
        tables: views of the tables that other processors look up, by store name.
        shared_stores: stores that a processor other than their writer reads.
        aggregators: what the rows of a store were made by, by store name, where an aggregation writes it.
        after_batch: what is left to do once all nodes have run.
    """

    config: StreamsConfig
    stores: Mapping[str, StoreSpec]
    open_store: Callable[[str], KeyValueStore | WindowStore | SessionStore]
    failures: FailureHandler
    stream_times: dict[str, int] = field(default_factory=dict)
    tables: dict[str, TableView] = field(default_factory=dict)
    shared_stores: frozenset[str] = frozenset()
    aggregators: Mapping[str, Aggregator] = field(default_factory=dict)
    after_batch: list[Callable[[], None]] = field(default_factory=list)

    def is_cached(self, store: str) -> bool:
        """Whether the updates of a key are merged within a commit."""
        return self.stores[store].cached and self.config.statestore_cache_enabled


def call_per_record(
    function: Callable[[Any, Any], Any], records: Records, failures: FailureHandler, node: str
) -> tuple[list[Any], IntArray | None]:
    """Calls ``function(key, value)`` for each record.

    Returns:
        The results, and the rows they belong to; ``None`` for the rows where no record failed.

    Raises:
        ProcessingError: the function raised, and the handler does not continue.
    """
    results: list[Any] = []
    failed: list[int] = []
    for row, (key, value) in enumerate(zip(records.keys.objects, records.values.objects, strict=True)):
        try:
            results.append(function(key, value))
        except Exception as error:
            failures.processing(error, int(records.origin[row]), node)
            failed.append(row)
    if not failed:
        return results, None
    kept = np.ones(len(records), dtype=bool)
    kept[failed] = False
    return results, np.flatnonzero(kept)
