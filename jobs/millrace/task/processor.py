"""The interface of a node's behaviour: the processor, and the task context that it is made with."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from millrace.callables import ASYNC_REMEDY, callable_name
from millrace.config import StreamsConfig
from millrace.errors import ProcessingError, StateError
from millrace.metrics import DropReason
from millrace.state import (
    KeyValueStore,
)
from millrace.task.columns import IntArray
from millrace.task.failures import FailureHandler, processed_record
from millrace.task.processing.runtime import ProcessingRuntime, system_time_ms
from millrace.task.records import Records
from millrace.task.task_stores import TaskStores
from millrace.topology.stores import StoreSpec

Forwarded = Records | Mapping[str, Records] | None
"""Records for every child, records by child name, or nothing."""


class HeldBack(NamedTuple):
    """The results that are held back in a store until stream time has advanced.

    Args:
        results: how many results.
        size_bytes: their bytes, where there is a limit to them.
        since_ms: end of the window, or time of the change, that is held back longest, milliseconds; ``None``: nothing
            is.
    """

    results: int
    size_bytes: int | None
    since_ms: int | None


class Processor(ABC):
    """One node of a task. It is called at most once per batch, with everything its parents forwarded, in order."""

    @abstractmethod
    def process(self, records: Records) -> Forwarded:
        """Processes records in their order and returns the records for the node's children."""

    def reset(self) -> None:  # noqa: B027
        """Discards everything derived from the stores: the batch failed, and they return to their last commit."""


class JointProcessor(ABC):
    """A processor of several nodes that share stores, so that none of them can process a whole batch before another."""

    @abstractmethod
    def process(self, inputs: Mapping[str, Records]) -> Mapping[str, Records]:
        """Processes the records of all the nodes, in their common order.

        Args:
            inputs: by node, what its parents forwarded; nodes without records are left out.

        Returns:
            by node, the records for its children.
        """

    def reset(self) -> None:  # noqa: B027
        """Resets the processor as :meth:`Processor.reset` does."""


def no_global_store(name: str) -> KeyValueStore:
    """Raises the error for a look-up in a global store by a task that has none.

    Raises:
        StateError: always.
    """
    raise StateError(f"There is no global store {name}.", remedy="add it to the topology with global_table()")


HeldBackByStore: TypeAlias = dict[str, Callable[[], HeldBack]]
"""By store name, a function that returns what is held back there."""


@dataclass
class TaskContext:
    """The surroundings of a task's processors; each processor is made with what it uses of them: see the factory.

    Lives as long as the task's stores are open.

    Args:
        config: the application's configuration.
        task: the task's name.
        partition: the task's partition, which is that of all its input records.
        failures: what happens to records that cannot be read or processed; counts dropped ones.
        stores: the stores, and how their rows reach the operators that look them up.
        stream_times: stream time of each windowed operator, milliseconds, by the name of its store. Survives
            restarts, and topologies in which the operator has another name.
        held_back: by store, a function that returns what is held back there until stream time has advanced.
        wall_clock_ms: the wall clock, milliseconds since the epoch.
        processing: what the processors that users write share.
        children: names of the children of each node that has any.
        state_directory: where the task's stores are; ``None`` where they are in memory.
        global_stores: specifications of the global stores that the nodes may look up, by name.
        open_global_store: returns one of them, for reading.
    """

    config: StreamsConfig
    task: str
    failures: FailureHandler
    stores: TaskStores
    processing: ProcessingRuntime
    partition: int = 0
    stream_times: dict[str, int] = field(default_factory=dict)
    held_back: HeldBackByStore = field(default_factory=dict)
    wall_clock_ms: Callable[[], int] = system_time_ms
    children: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    state_directory: Path | None = None
    global_stores: Mapping[str, StoreSpec] = field(default_factory=dict)
    open_global_store: Callable[[str], KeyValueStore] = no_global_store


def drop_null_keys(records: Records, failures: FailureHandler) -> Records:
    """Returns the records that have a key, and counts the others as dropped."""
    no_key = records.keys.null_mask()
    failures.drop(DropReason.NULL_KEY, records.origin[no_key])
    return records.filter(~no_key)


def drop_superseded(records: Records, failures: FailureHandler) -> Records:
    """Returns a table's changes without the out-of-order ones of a versioned table, which are counted (KIP-914)."""
    if records.superseded is None:
        return records
    failures.drop(DropReason.LATE, records.origin[records.superseded])
    return records.without_superseded()


def drop_nulls(records: Records, failures: FailureHandler) -> Records:
    """Returns the records that have a key and a value; counts the others, those with neither by their key."""
    records = drop_null_keys(records, failures)
    no_value = records.values.null_mask()
    failures.drop(DropReason.NULL_VALUE, records.origin[no_value])
    return records.filter(~no_value)


def call_per_record(
    function: Callable[[Any, Any], Any], records: Records, failures: FailureHandler, node: str
) -> tuple[list[Any], IntArray | None]:
    """Calls ``function(key, value)`` for each record.

    Returns:
        The results, and the rows they belong to; ``None`` for the rows where no record failed.

    Raises:
        ProcessingError: the function raised, and the handler does not continue; or it returns coroutines.
    """
    results: list[Any] = []
    failed: list[int] = []
    for row, (key, value) in enumerate(zip(records.keys.objects, records.values.objects, strict=True)):
        try:
            results.append(function(key, value))
        except Exception as error:
            failures.processing(error, int(records.origin[row]), node, processed_record(records, row))
            failed.append(row)
    if results and inspect.isawaitable(results[0]):
        # Found at build where the function itself is async; a lambda around one shows only here. One look a batch.
        kind = type(results[0]).__name__
        for result in results:
            if inspect.iscoroutine(result):
                result.close()
        raise ProcessingError(
            f"{callable_name(function)} of node {node} returned a {kind}, which nothing awaits, so the record would be "
            "taken for processed.",
            remedy=ASYNC_REMEDY,
        )
    if not failed:
        return results, None
    kept = np.ones(len(records), dtype=bool)
    kept[failed] = False
    return results, np.flatnonzero(kept)
