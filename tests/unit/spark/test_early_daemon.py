"""A Python daemon that imports before Spark asks for one: Spark cannot tell it from the one that it starts itself."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil
import pytest

from millrace.spark.early_daemon import SOCKET_VARIABLE, EarlyDaemon, start_early_daemon

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is none on other systems")

_WAIT_S = 60.0
# As Spark's PythonWorkerFactory sets them; workers without a secret would need one more exchange.
_OF_SPARK = {
    "PYTHONUNBUFFERED": "YES",
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "SPARK_REUSE_WORKER": "1",
    "PYTHON_UNIX_DOMAIN_ENABLED": "false",
    "PYTHON_WORKER_FACTORY_SECRET": "secret",
}


@pytest.fixture
def early(monkeypatch: pytest.MonkeyPatch) -> Iterator[EarlyDaemon]:
    monkeypatch.setenv(SOCKET_VARIABLE, "")
    for name in ("PYTHONHASHSEED", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    daemon = start_early_daemon()
    assert daemon is not None
    yield daemon
    daemon.process.kill()
    daemon.process.wait()
    assert daemon.process.stdin is not None
    daemon.process.stdin.close()


class FromSpark:
    """What Spark starts as its daemon, and how it talks to it."""

    def __init__(self, directory: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log = directory / "stderr"
        with self.log.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "millrace.spark.python_daemon", "pyspark.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=directory,
                env={**os.environ, **_OF_SPARK, **(environment or {})},
            )

    def port(self) -> int:
        assert self.process.stdout is not None
        written = self.process.stdout.read(4)
        assert len(written) == 4, self.log.read_text()
        return int(struct.unpack("!i", written)[0])

    def worker(self, port: int) -> tuple[psutil.Process, socket.socket]:
        connection = socket.create_connection(("127.0.0.1", port))
        return psutil.Process(struct.unpack("!i", connection.recv(4))[0]), connection

    def close(self) -> None:
        """As Spark ends a daemon."""
        assert self.process.stdin is not None
        self.process.stdin.close()


@pytest.fixture
def from_spark(early: EarlyDaemon, tmp_path: Path) -> Iterator[FromSpark]:
    started = FromSpark(tmp_path)
    yield started
    started.process.kill()
    started.process.wait()


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def test_spark_s_workers_are_forked_from_it_with_what_spark_gave_its_own(
    early: EarlyDaemon, from_spark: FromSpark, tmp_path: Path
) -> None:
    worker, connection = from_spark.worker(from_spark.port())
    assert worker.ppid() == early.process.pid
    assert Path(worker.cwd()) == tmp_path
    assert Path(f"/proc/{worker.pid}/fd/2").resolve() == from_spark.log
    connection.close()
    until(lambda: not worker.is_running(), "a worker outlived its connection")
    # Spark tells the daemon of a worker that it wants killed by its standard input.
    another, connection = from_spark.worker(port_of(early))
    assert from_spark.process.stdin is not None
    from_spark.process.stdin.write(struct.pack("!i", another.pid))
    from_spark.process.stdin.flush()
    until(lambda: not another.is_running(), "a worker was not killed")
    connection.close()


def port_of(daemon: EarlyDaemon) -> int:
    (listening,) = [
        each for each in psutil.Process(daemon.process.pid).net_connections("tcp4") if each.status == psutil.CONN_LISTEN
    ]
    return int(listening.laddr.port)


def test_it_ends_with_spark_and_so_does_what_spark_started(early: EarlyDaemon, from_spark: FromSpark) -> None:
    worker, connection = from_spark.worker(from_spark.port())
    from_spark.close()
    connection.close()
    assert early.process.wait(_WAIT_S) == 1  # as Spark's daemon ends
    assert from_spark.process.wait(_WAIT_S) == 0
    until(lambda: not worker.is_running(), "a worker outlived Spark")


def test_what_spark_started_ends_when_it_was_killed_and_the_next_one_does_without(
    early: EarlyDaemon, from_spark: FromSpark, tmp_path: Path
) -> None:
    from_spark.port()
    early.process.kill()
    from_spark.process.wait(_WAIT_S)
    next_one = FromSpark(tmp_path)
    try:
        worker, connection = next_one.worker(next_one.port())
        assert worker.ppid() == next_one.process.pid
        connection.close()
    finally:
        next_one.close()
        next_one.process.wait(_WAIT_S)


def test_workers_of_another_environment_are_not_forked_from_it(early: EarlyDaemon, tmp_path: Path) -> None:
    # As spark.executorEnv gives it; numpy has read it when it was imported.
    other = FromSpark(tmp_path, {"OMP_NUM_THREADS": "2"})
    try:
        worker, connection = other.worker(other.port())
        assert worker.ppid() == other.process.pid
        connection.close()
        assert early.process.wait(_WAIT_S) == 0
    finally:
        other.close()
        other.process.wait(_WAIT_S)


def test_a_released_one_ends_and_is_not_found_any_more(early: EarlyDaemon) -> None:
    early.release()
    assert SOCKET_VARIABLE not in os.environ
    assert early.process.wait(_WAIT_S) == 0


@pytest.mark.parametrize("imported", [False, True], ids=["while it imports", "while it waits"])
def test_it_does_not_outlive_a_killed_driver(imported: bool) -> None:
    program = """
import os, signal, sys
from millrace.spark.early_daemon import start_early_daemon
daemon = start_early_daemon()
print(daemon.process.pid, flush=True)
sys.stdin.read()
os.kill(os.getpid(), signal.SIGKILL)
"""
    driver = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert driver.stdout is not None
    assert driver.stdin is not None
    daemon = psutil.Process(int(driver.stdout.readline()))
    if imported:
        until(lambda: is_idle(daemon), "it has not finished its imports")
    driver.stdin.close()
    assert driver.wait(_WAIT_S) == -signal.SIGKILL
    driver.stdout.close()
    until(lambda: not daemon.is_running() or daemon.status() == psutil.STATUS_ZOMBIE, "it outlived its driver")


def is_idle(process: psutil.Process) -> bool:
    """Whether it has imported everything, and uses no more time."""
    before = process.cpu_times()
    time.sleep(0.3)
    return sum(before[:2]) > 0.5 and process.cpu_times() == before
