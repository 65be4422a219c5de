"""What the driver needs of a streaming query; ``millrace.spark`` has the real one."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

TopicPartition = tuple[str, int]


@dataclass(frozen=True, kw_only=True)
class QueryProgress:
    """How far a query has come.

    Args:
        sub_topology: number of the sub-topology.
        batch_id: Spark's number of the last batch, -1 before the first one.
        batches: finished batches since the driver started, over restarts of the query.
        last_batch_started_at: seconds since the epoch, ``None`` before the first batch.
        last_batch_finished_at: seconds since the epoch, ``None`` before the first batch.
        records: input records processed since the driver started.
        positions: committed offset of each input partition.
        end_offsets: end of each input partition as the query last saw it.
        task_hosts: ``host/pid`` of the worker that ran each task last, by task id (``1_3``).
        task_states: state of each task, by task id.
        restore_remaining: changelog records that each restoring task has still to apply, by task id.
    """

    sub_topology: int
    batch_id: int = -1
    batches: int = 0
    last_batch_started_at: float | None = None
    last_batch_finished_at: float | None = None
    records: int = 0
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    end_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    task_hosts: Mapping[str, str] = field(default_factory=dict)
    task_states: Mapping[str, str] = field(default_factory=dict)
    restore_remaining: Mapping[str, int] = field(default_factory=dict)


class Query(Protocol):
    """One sub-topology as one streaming query.

    The callback of a batch checks the stop and pause flags after it has the lock, so that a barrier which took the
    lock first is respected. ``is_active``, ``exception`` and ``progress`` are read while a callback waits for the
    driver's heartbeat: they never wait for the lock.
    """

    @property
    def name(self) -> str:
        """``<application-id>-<sub-topology number>``."""

    @property
    def sub_topology(self) -> int:
        """Number of the sub-topology."""

    @property
    def lock(self) -> threading.RLock:
        """Held by the query during a batch."""

    @property
    def is_active(self) -> bool:
        """Whether the streaming query runs."""

    @property
    def exception(self) -> BaseException | None:
        """Why the query died; ``None`` while it runs or after it was stopped."""

    @property
    def progress(self) -> QueryProgress:
        """How far it has come; survives restarts of the query."""

    def start(self) -> None:
        """Starts with a new Spark checkpoint at the group's committed offsets; returns once the query is started."""

    def request_stop(self) -> None:
        """From now on a callback returns at once."""

    def stop(self, timeout_s: float) -> None:
        """Stops the query; must not be called inside a callback, which Spark would wait for."""

    def pause(self) -> None:
        """From now on callbacks process nothing."""

    def resume(self) -> None:
        """Ends :meth:`pause`."""

    def tick(self) -> None:
        """Runs the task code without rows: commits idle offsets again, keeps workers warm. Returns soon if not due."""
