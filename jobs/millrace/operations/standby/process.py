"""The long-running process of a standby: a thread for each copy, and the socket on which tasks ask for theirs."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog
from prometheus_client import start_http_server

from millrace.config import StreamsConfig
from millrace.driver.status_topic import read_statuses
from millrace.install.connection import admin_of
from millrace.kafka.offsets import committed_offsets
from millrace.operations.standby.status import (
    StandbyMetrics,
    StandbyStatus,
    TaskCopyStatus,
    status_path,
    write_standby_status,
)
from millrace.operations.standby.tasks import copied_tasks, driver_is_alive, tasks_of_this_host, tasks_to_copy
from millrace.processes import ProcessIdentity
from millrace.spark.worker_socket import GiveUp, listen, send, serve
from millrace.state import StateOptions
from millrace.state.standby_copy import CopiedTask, Runs, StandbyCopy
from millrace.state.standby_follower import StandbyFollower
from millrace.task.standby import runs_of
from millrace.topology.topology import FrozenTopology

_LOOK_S = 1.0
_HOSTS_S = 5.0
_RUNS_S = 2.0
_RETRY_S = 2.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class StandbyOptions:
    """How a standby runs.

    Args:
        state_dir: where the copies are; ``None`` takes the application's ``state.dir``, and leaves the tasks out that
            workers of this host run. A directory of its own copies all tasks.
        once: end when every copy has what there was at the beginning.
        metrics_port: port for Prometheus; ``None`` for none.
    """

    state_dir: Path | None = None
    once: bool = False
    metrics_port: int | None = None


def _shown(follower: StandbyFollower, acceptable_lag: int) -> TaskCopyStatus:
    """How a copy is, for the status file."""
    seen = follower.seen
    if seen is None:
        return TaskCopyStatus(state=follower.state, problem=follower.problem)
    return TaskCopyStatus(
        state=follower.state,
        lag=seen.lag,
        caught_up=seen.lag is not None and seen.lag <= acceptable_lag,
        records=seen.records,
        records_per_s=round(seen.records_per_s, 1),
        behind_s=None if seen.behind_s is None else round(seen.behind_s, 3),
        positions=dict(seen.positions),
        run=seen.run,
        problem=follower.problem,
    )


class Standby:
    """A standby of one application. Use as a context manager; :meth:`run` works until :meth:`stop`.

    Args:
        config: the application's configuration.
        topology: its topology.
        options: how it runs.
    """

    def __init__(self, config: StreamsConfig, topology: FrozenTopology, options: StandbyOptions) -> None:
        self._config = config
        self._topology = topology
        self._options = options
        self.state_dir = options.state_dir or Path(config.state_dir)
        self._admin = admin_of(config)
        self._followers: dict[str, StandbyFollower] = {}
        self._given_up: set[str] = set()
        self._guard = threading.Lock()
        self._stopping = threading.Event()
        self._retry_at: dict[str, float] = {}
        self._own: frozenset[str] = frozenset()
        self._own_known_at = 0.0
        self._runs = Runs()
        self._runs_known_at = float("-inf")
        self._runs_guard = threading.Lock()
        self._process = ProcessIdentity.current()
        self._metrics = StandbyMetrics(config.application_id)
        self._tasks = copied_tasks(config, topology, self._admin, state_dir=self.state_dir)

    def stop(self) -> None:
        """Ask :meth:`run` to end; may be called by a signal handler."""
        self._stopping.set()

    def run(self, on_probe: Callable[[StandbyStatus], None] = lambda _: None) -> StandbyStatus:
        """Copies until it is stopped, or with ``once`` until everything is there.

        Args:
            on_probe: called every second with the status.

        Returns:
            The last status.

        Raises:
            MillraceError: with ``once``, why a copy failed.
        """
        serve(listen(), self._answer, name="standby-asked")
        if self._options.metrics_port is not None:
            start_http_server(self._options.metrics_port, registry=self._metrics.registry)
        try:
            while True:
                self._start_followers()
                status = self.status()
                self._publish(status)
                on_probe(status)
                if self._options.once and not any(each.is_active for each in self._followers.values()):
                    break
                if self._stopping.wait(_LOOK_S):
                    break
        finally:
            self._stop_all()
        for follower in self._followers.values():
            if self._options.once and follower.error is not None:
                raise follower.error
        status = self.status()
        self._publish(status)
        return status

    def status(self) -> StandbyStatus:
        """How all copies are."""
        with self._guard:
            followers = dict(self._followers)
        tasks = {name: _shown(each, self._config.acceptable_recovery_lag) for name, each in followers.items()}
        for name in self._given_up - followers.keys():
            tasks[name] = TaskCopyStatus(state="given up", problem="the application runs the task here")
        return StandbyStatus(
            application_id=self._config.application_id,
            pid=self._process.pid,
            start_time=self._process.start_time,
            updated_at=time.time(),
            acceptable_recovery_lag=self._config.acceptable_recovery_lag,
            tasks=dict(sorted(tasks.items())),
        )

    def release(self, directory: Path) -> None:
        """Close the copy in a directory and leave it to whoever asks."""
        with self._guard:
            found = next((each for each in self._followers.values() if each.task.directory == directory), None)
            if found is None:
                return
            self._given_up.add(found.task.name)
        found.stop()
        with self._guard:
            self._followers.pop(found.task.name, None)
        _log.info("copy given up", task=found.task.name, positions=_shown(found, 0).positions)

    def _start_followers(self) -> None:
        if not self._tasks and not self._options.once:
            self._tasks = copied_tasks(self._config, self._topology, self._admin, state_dir=self.state_dir)
        driver_is_here = driver_is_alive(self.state_dir, self._config.application_id)
        if not driver_is_here:
            self._given_up.clear()
        wanted = tasks_to_copy(
            self._tasks, own=self._own_tasks(), given_up=self._given_up, driver_is_here=driver_is_here
        )
        for name in wanted:
            with self._guard:
                old = self._followers.get(name)
                if old is not None and (old.is_active or self._options.once or time.monotonic() < self._retry_at[name]):
                    continue
                self._retry_at[name] = time.monotonic() + _RETRY_S
                self._followers[name] = StandbyFollower(self._tasks[name], self._open_copy, once=self._options.once)
        for name in set(self._followers) - set(wanted):
            self.release(self._followers[name].task.directory)

    def _own_tasks(self) -> frozenset[str]:
        if self._options.state_dir is not None:
            return frozenset()
        if time.monotonic() - self._own_known_at > _HOSTS_S or not self._own_known_at:
            statuses = read_statuses(
                self._config.bootstrap_servers, client_settings=self._config.client_settings("admin.")
            )
            self._own = tasks_of_this_host(statuses.get(self._config.application_id))
            self._own_known_at = time.monotonic()
        return self._own

    def _open_copy(self, task: CopiedTask) -> StandbyCopy:
        return StandbyCopy(
            task,
            self._config.bootstrap_servers,
            self._committed,
            self._known_runs,
            settings=self._config.client_settings("consumer."),
            options=StateOptions.from_config(self._config),
        )

    def _committed(self, place: tuple[str, int]) -> int | None:
        found = committed_offsets(self._admin, self._config.application_id, [place], stable=False).get(place)
        return None if found is None else found.offset

    def _known_runs(self) -> Runs:
        """The application's runs, as they were a few seconds ago at most; for any thread."""
        with self._runs_guard:
            if time.monotonic() - self._runs_known_at > _RUNS_S:
                inputs = {place for task in self._tasks.values() for place in task.inputs}
                self._runs = runs_of(committed_offsets(self._admin, self._config.application_id, inputs, stable=False))
                self._runs_known_at = time.monotonic()
            return self._runs

    def _publish(self, status: StandbyStatus) -> None:
        write_standby_status(status_path(self.state_dir, self._config.application_id), status)
        self._metrics.show(status)

    def _stop_all(self) -> None:
        for follower in self._followers.values():
            follower.ask_to_stop()
        for follower in self._followers.values():
            follower.stop()

    def _answer(self, connection: socket.socket, asked: object) -> None:
        if isinstance(asked, GiveUp):
            self.release(Path(asked.directory))
            send(connection, True)
        else:
            # A batch for the task: it is not held here, its worker asks for the directory next.
            send(connection, None)


def run_standby(
    config: StreamsConfig,
    topology: FrozenTopology,
    options: StandbyOptions,
    *,
    on_probe: Callable[[StandbyStatus], None] = lambda _: None,
    on_start: Callable[[Standby], None] = lambda _: None,
) -> StandbyStatus:
    """Keep copies of an application's stores up to date in this process.

    Args:
        config: the application's configuration.
        topology: its topology.
        options: how it runs.
        on_probe: called every second with the status.
        on_start: called with the standby before it works, so that a signal can stop it.

    Returns:
        The status at the end.

    Raises:
        MillraceError: topics are missing, no broker answers, or with ``once`` a copy failed.
    """
    standby = Standby(config, topology, options)
    on_start(standby)
    return standby.run(on_probe)
