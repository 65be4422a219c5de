"""Rewriting the files of stores: by the workers that have them open, or here where nobody has."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from millrace.config import StreamsConfig
from millrace.driver.task_databases import BEGIN_COMPACTION, PROBE_COMPACTION
from millrace.install.home import ApplicationDirectory
from millrace.install.launchers.instance import DriverInstance
from millrace.launch.control_client import request_operation
from millrace.state import DirectoryLock, StateDirectory
from millrace.state.directory import DATABASE_DIRECTORY
from millrace.state.file_compaction import CompactionProgress
from millrace.state.rocksdb import DatabaseOptions, RocksDatabase

_ANSWER_LIMIT_S = 120.0
_GRACE_S = 30.0
_PROBE_EVERY_S = 3.0
_PROBE_HERE_EVERY_S = 0.05


def compact_running(
    directory: ApplicationDirectory, driver: DriverInstance, *, budget_s: float, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Has the workers of a running application compact in the background; batches go on.

    Raises:
        OperationError: the driver does not answer.
    """
    request_operation(directory, driver, BEGIN_COMPACTION, {"budget_s": budget_s}, timeout_s=_ANSWER_LIMIT_S)

    def look() -> dict[str, Any]:
        answer = request_operation(directory, driver, PROBE_COMPACTION, {}, timeout_s=_ANSWER_LIMIT_S)
        tasks: dict[str, Any] = answer["tasks"]
        progress(f"{sum(map(_runs, tasks.values()))} of {len(tasks)} tasks rewrite the files of their stores")
        return tasks

    attempts = Retrying(
        retry=retry_if_result(lambda tasks: any(map(_runs, tasks.values()))),
        stop=stop_after_delay(budget_s + _GRACE_S),
        wait=wait_fixed(_PROBE_EVERY_S),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome is not None else {},
    )
    # A task whose stores were opened again meanwhile, in another worker, says nothing: it goes on uncompacted.
    return {task: each or {"problem": "the task moved to another worker"} for task, each in attempts(look).items()}


def compact_stopped(config: StreamsConfig, *, budget_s: float, progress: Callable[[str], None]) -> dict[str, Any]:
    """Compact the stores that are on this host and that no process has open.

    Raises:
        StateDirectoryLockedError: a process has them open.
        StateError: a database is damaged.
    """
    state = StateDirectory(config.state_dir)
    deadline = time.monotonic() + budget_s
    done = {}
    for sub_topology, partition in state.tasks(config.application_id):
        path = state.task(config.application_id, sub_topology, partition)
        lock = DirectoryLock(path)
        try:
            if (path / DATABASE_DIRECTORY / "CURRENT").exists():
                progress(f"rewriting the files of task {path.name}")
                database = RocksDatabase(path / DATABASE_DIRECTORY, {}, options=DatabaseOptions())
                try:
                    done[path.name] = asdict(_compact(database, max(deadline - time.monotonic(), 0.0)))
                finally:
                    database.close()
        finally:
            lock.release()
    return done


def _compact(database: RocksDatabase, budget_s: float) -> CompactionProgress:
    database.begin_compaction(budget_s=budget_s)

    def look() -> CompactionProgress:
        progress = database.compaction
        assert progress is not None
        return progress

    attempts = Retrying(retry=retry_if_result(lambda each: each.running), wait=wait_fixed(_PROBE_HERE_EVERY_S))
    return attempts(look)


def _runs(task: Mapping[str, Any] | None) -> bool:
    return task is not None and bool(task["running"])
