"""A small Spark standalone cluster on this host, from the scripts that pyspark brings: for tests and trials."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from millrace.embedded.broker import free_ports
from millrace.errors import OperationError
from millrace.kafka.jars import spark_home
from millrace.kafka.java import QUICK_TO_START, find_java
from millrace.processes import ProcessIdentity
from millrace.tls import tls_context

STATE_DIRECTORY_VARIABLE = "MILLRACE_STATE_DIR"
"""See :data:`millrace.spark.plan.STATE_DIRECTORY_VARIABLE`; Spark's Python package is not loaded for it."""

_HOST = "127.0.0.1"
_POLL_S = 0.2


class SparkCluster:
    """A master and some workers, each a process of its own session.

    Usable as a context manager. A crash of the caller leaves the processes; their numbers are in ``directory``.

    Args:
        directory: logs and the workers' scratch files.
        workers: number of workers; each runs one executor of an application.
        cores: cores of each worker.
        memory: memory of each worker, for example ``1g``.
        own_state: whether each worker's executors keep stores in a directory of their own, ``worker-N/state``, as on
            hosts with disks of their own.
    """

    def __init__(
        self, directory: Path, *, workers: int = 2, cores: int = 1, memory: str = "1g", own_state: bool = False
    ) -> None:
        self.directory = directory
        self._workers = workers
        self._cores = cores
        self._memory = memory
        self._own_state = own_state
        self._port, self._ui_port = free_ports(2)
        self._processes: list[tuple[subprocess.Popen[bytes], ProcessIdentity]] = []

    @property
    def master(self) -> str:
        """URL for ``launcher.master``."""
        return f"spark://{_HOST}:{self._port}"

    def start(self, *, timeout_s: float = 300.0) -> None:
        """Starts everything and returns when all workers are registered.

        Raises:
            OperationError: they were not in time; everything is ended again.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            self._spawn("master", master_arguments(port=self._port, ui_port=self._ui_port))
            for number in range(self._workers):
                self._spawn_worker(number)
            self._wait(timeout_s)
        except BaseException:
            self.stop()
            raise

    def add_worker(self, *, timeout_s: float = 300.0) -> None:
        """Starts one more worker and returns when it is registered.

        Raises:
            OperationError: it was not in time; everything is ended.
        """
        try:
            self._spawn_worker(self._workers)
            self._workers += 1
            self._wait(timeout_s)
        except BaseException:
            self.stop()
            raise

    def state(self) -> dict[str, Any]:
        """Returns what the master says of workers and applications; empty if it does not answer."""
        try:
            answer = httpx.get(
                f"http://{_HOST}:{self._ui_port}/json/", timeout=5, trust_env=False, verify=tls_context()
            )
            return dict(answer.json()) if answer.is_success else {}
        except (httpx.HTTPError, ValueError):
            return {}

    def stop(self, *, timeout_s: float = 10.0) -> None:
        """Ends all processes, executors included. Idempotent."""
        for process, identity in self._processes:
            # Nothing of a cluster on one host is worth an orderly end, and the group holds the executors too.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(identity.pid, signal.SIGKILL)
            process.wait(timeout=timeout_s)
            identity.wait_until_gone(timeout_s)
        self._processes.clear()

    def __enter__(self) -> SparkCluster:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _spawn_worker(self, number: int) -> None:
        name = f"worker-{number}"
        directory = self.directory / name
        arguments = worker_arguments(
            self.master, ui_port=0, cores=self._cores, memory=self._memory, directory=directory
        )
        own = {STATE_DIRECTORY_VARIABLE: str(directory / "state")} if self._own_state else {}
        self._spawn(name, arguments, own)

    def _spawn(self, name: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        home = spark_home()
        with (self.directory / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={
                    "SPARK_DAEMON_JAVA_OPTS": " ".join(QUICK_TO_START),
                    **os.environ,
                    "SPARK_HOME": str(home),
                    "JAVA_HOME": str(find_java().resolve().parent.parent),
                    "SPARK_LOCAL_IP": _HOST,
                    **(environment or {}),
                },
                start_new_session=True,
            )
        identity = ProcessIdentity.of(process.pid)
        if identity is None:
            raise OperationError(f"Spark's {name} ended at once.", remedy=f"read {self.directory / name}.log")
        self._processes.append((process, identity))
        (self.directory / f"{name}.pid").write_text(str(process.pid))

    def _wait(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            alive = [worker for worker in self.state().get("workers", []) if worker.get("state") == "ALIVE"]
            if len(alive) == self._workers:
                return
            died = [identity.pid for _, identity in self._processes if not identity.is_alive()]
            if died or time.monotonic() > deadline:
                what = f"processes {died} ended" if died else f"{len(alive)} of {self._workers} workers came up"
                raise OperationError(f"The Spark cluster did not start: {what}.", remedy=f"read {self.directory}/*.log")
            time.sleep(_POLL_S)


def master_arguments(*, port: int, ui_port: int) -> list[str]:
    """Returns the arguments of ``spark-class`` for a master on the loopback."""
    return [
        "org.apache.spark.deploy.master.Master", "--host", _HOST, "--port", str(port), "--webui-port", str(ui_port),
    ]  # fmt: skip


def worker_arguments(master: str, *, ui_port: int, cores: int, memory: str, directory: Path) -> list[str]:
    """Returns the arguments of ``spark-class`` for a worker on the loopback.

    ``directory`` is for the executors' files.
    """
    return [
        "org.apache.spark.deploy.worker.Worker", "--host", _HOST, "--webui-port", str(ui_port),
        "--cores", str(cores), "--memory", memory, "--work-dir", str(directory), master,
    ]  # fmt: skip
