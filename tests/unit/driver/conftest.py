from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millrace.driver.driver import Driver
from millrace.driver.driver_options import DriverHooks, DriverSettings, ExitCode
from millrace.driver.lifecycle import ApplicationState
from millrace.driver.query import QueryProgress
from millrace.driver.reporter import Application, Prepared
from millrace.driver.restarts import RestartPolicy
from millrace.driver.status import ApplicationStatus, DriverIdentity
from millrace.errors import DriverFencedError


class FakeQuery:
    """A query without Spark: tests run its batches by hand."""

    def __init__(self, sub_topology: int = 0, journal: list[str] | None = None) -> None:
        self.name = f"app-{sub_topology}"
        self.sub_topology = sub_topology
        self.lock = threading.RLock()
        self.is_active = False
        self.exception: BaseException | None = None
        self.progress = QueryProgress(sub_topology=sub_topology)
        self.journal = journal if journal is not None else []
        self.starts = 0
        self.ticks = 0
        self.next_tick_s: float | None = None
        self.paused = False
        self.purges = True
        self.stop_requested = False
        self.abandoned: DriverFencedError | None = None
        self.start_errors: list[Exception] = []
        self.tick_errors: list[Exception] = []
        self.started = threading.Event()
        self.ticked = threading.Event()

    def start(self) -> None:
        self.journal.append(f"start {self.name}")
        self.starts += 1
        if self.start_errors:
            raise self.start_errors.pop(0)
        self.exception = None
        self.is_active = True
        self.started.set()

    def die(self, error: Exception) -> None:
        self.started.clear()
        self.exception = error
        self.is_active = False

    def batch(self, **progress: Any) -> None:
        with self.lock:
            self.progress = replace(self.progress, batches=self.progress.batches + 1, **progress)

    def request_stop(self) -> None:
        self.journal.append(f"request stop {self.name}")
        self.stop_requested = True

    def abandon(self, error: DriverFencedError) -> None:
        self.journal.append(f"abandon {self.name}")
        self.abandoned = error

    def stop(self, timeout_s: float) -> None:
        self.journal.append(f"stop {self.name}")
        self.is_active = False

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def run_on_tasks(self, action: Any) -> dict[str, object]:
        self.journal.append(f"run {action} on {self.name}")
        return {f"{self.sub_topology}_0": action}

    def tick(self) -> None:
        self.ticks += 1
        self.ticked.set()
        if self.tick_errors:
            raise self.tick_errors.pop(0)


class FakePublisher:
    """Keeps what is published; `fence` makes the next publication fail as a newer driver would."""

    def __init__(self, journal: list[str], last: ApplicationStatus | None = None) -> None:
        self.journal = journal
        self.last = last
        self.epoch = 0
        self.published: list[ApplicationStatus] = []
        self.fenced = False

    def peek(self) -> ApplicationStatus | None:
        return self.last

    def open(self) -> ApplicationStatus | None:
        self.journal.append("open publisher")
        self.epoch = (self.last.driver_epoch if self.last else 0) + 1
        return self.last

    def publish(self, status: ApplicationStatus) -> None:
        if self.fenced:
            raise DriverFencedError("Driver 1 of app was fenced by a newer driver: number 2.")
        self.published.append(status)

    def close(self) -> None:
        self.journal.append("close publisher")

    @property
    def states(self) -> list[ApplicationState]:
        states = [status.state for status in self.published]
        return [state for index, state in enumerate(states) if index == 0 or states[index - 1] is not state]


class RunningDriver:
    """A driver in a thread, with everything around it faked."""

    def __init__(self, path: Path, queries: list[FakeQuery], last: ApplicationStatus | None, options: dict[str, Any]):
        self.journal: list[str] = []
        for query in queries:
            query.journal = self.journal
        self.queries = queries
        self.publisher = FakePublisher(self.journal, last)
        self.fenced_ids: list[list[str]] = []
        self.previous: list[ApplicationStatus | None] = []
        prepared = Prepared(
            queries=tuple(queries),
            transactional_ids=("app-0_0",),
            offsets={queries[0].sub_topology: {("in", 0): 5}},
            topic_ids={"in": "uuid"},
            partitions={"in": 1},
        )

        def fence(ids: Any) -> None:
            self.journal.append("fence")
            self.fenced_ids.append(list(ids))

        def prepare(previous: ApplicationStatus | None) -> Prepared:
            self.journal.append("prepare")
            self.previous.append(previous)
            return prepared

        hooks = DriverHooks(**{"prepare": prepare, "fence": fence, **options.pop("hooks", {})})
        settings = DriverSettings(
            **{
                "control_file": path / "run" / "control.json",
                "heartbeat_interval_s": 0.02,
                "barrier_timeout_s": 2.0,
                "restart": RestartPolicy(initial_s=0.01, max_attempts=2),
                **options,
            }
        )
        self.control_file = settings.control_file
        self.driver = Driver(
            Application(application_id="app", run_id="r1", topology_fingerprint="f00"), hooks, self.publisher, settings
        )
        self.code: ExitCode | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        self.code = self.driver.run(handle_signals=False)

    def start(self) -> RunningDriver:
        self._thread.start()
        return self

    def wait_for(self, *states: ApplicationState) -> None:
        assert self.driver.lifecycle.wait_for(*states, timeout_s=60), self.driver.lifecycle.state

    def end(self) -> ExitCode | None:
        self._thread.join(10)
        assert not self._thread.is_alive(), "the driver did not end"
        return self.code


@pytest.fixture
def make_query() -> Callable[..., FakeQuery]:
    return FakeQuery


@pytest.fixture
def make_driver(tmp_path: Path) -> Any:
    made: list[RunningDriver] = []

    def make(*queries: FakeQuery, last: ApplicationStatus | None = None, **options: Any) -> RunningDriver:
        made.append(RunningDriver(tmp_path, list(queries or (FakeQuery(),)), last, options))
        return made[-1]

    yield make
    for each in made:
        each.driver.stop()
        if each._thread.ident is not None:
            each.end()


@pytest.fixture
def make_status() -> Callable[..., ApplicationStatus]:
    def make(**changes: Any) -> ApplicationStatus:
        fields: dict[str, Any] = {
            "application_id": "app",
            "state": ApplicationState.RUNNING,
            "driver": DriverIdentity(host="h", pid=1, start_time=1),
            "driver_epoch": 1,
            "started_at": 1000.0,
            "updated_at": 1000.0,
        }
        return ApplicationStatus(**{**fields, **changes})

    return make
