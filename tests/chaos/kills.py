"""Kills parts of a running application and measures how long it takes until it is where it would have been."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from millrace.embedded.broker import EmbeddedBroker
from millrace.kafka.offsets import End, committed_offsets, end_offsets
from millrace.task.crash_points import DIRECTORY_VARIABLE, CrashPoint
from millrace.topology.topic_partition import TopicPartition
from tests.application import Application, wait_until

HIT_LIMIT_S = 30.0
RECOVERY_LIMIT_S = 180.0

_BROKER = "kafka.Kafka"
_EXECUTOR = "CoarseGrainedExecutorBackend"


@dataclass(frozen=True)
class Recovery:
    """How long it took from a kill until everything that was in the input topics by then was committed, seconds.

    Args:
        kind: what was killed.
        seconds: how long.
        behind: records that were not committed when the waiting began.
    """

    kind: str
    seconds: float
    behind: int


class Chaos:
    """What can be done to an application, which must be running.

    Args:
        application: it.
        broker: its broker.
        points: directory of armed crash points, the ``MILLRACE_CRASH_POINTS`` of its processes.
        recoveries: takes what recovery cost.
    """

    def __init__(
        self, application: Application, broker: EmbeddedBroker, points: Path, recoveries: list[Recovery]
    ) -> None:
        self.application = application
        self.topic_partitions: list[TopicPartition] = application.inputs()
        assert self.topic_partitions
        self._broker = broker
        self._points = points
        self._recoveries = recoveries
        self._killed_at = time.monotonic()

    def die_at(self, point: CrashPoint, number: signal.Signals = signal.SIGKILL) -> None:
        """Has the first process that reaches ``point`` get a signal there; returns when it did."""
        armed = self._points / point
        written = armed.with_suffix(".new")
        written.write_text(number.name)
        written.rename(armed)
        wait_until(lambda: not armed.exists(), timeout_s=HIT_LIMIT_S, what=f"crash point {point}")
        self._killed_at = time.monotonic()

    def kill_worker(self, *, seconds_from_now: float) -> None:
        """Ends one of the Python workers that ran the last tasks."""
        time.sleep(seconds_from_now)  # the moment is what is random here, nothing is waited for
        workers = [pid for pid in self.application.workers() if psutil.pid_exists(pid)]
        assert workers
        self._kill(psutil.Process(workers[0]))

    def kill_executor(self) -> None:
        """Ends the virtual machine of one executor."""
        self._kill(self._ours(_EXECUTOR)[0])

    def kill_executor_of(self, worker: psutil.Process) -> None:
        """Ends the virtual machine that a worker belongs to."""
        (executor,) = [each for each in worker.parents() if any(_EXECUTOR in part for part in each.cmdline())]
        self._kill(executor)

    def kill_broker(self) -> None:
        """Ends the broker and starts it again on its data and ports."""
        self._killed_at = time.monotonic()
        self._broker.kill()
        self._broker.start()

    def kill_driver(self) -> None:
        """Ends the driver's own process, not what it started, and starts it again."""
        self._kill(psutil.Process(self.application.pid))
        self.restart_driver()

    def restart_driver(self) -> None:
        """Starts the driver again, which was killed."""
        wait_until(lambda: not self.application.is_alive(), timeout_s=10, what="end of the driver")
        self.application.start()

    def stop_a_worker_at(self, point: CrashPoint) -> psutil.Process:
        """Has the first worker that reaches ``point`` hang there; :meth:`psutil.Process.resume` ends that."""
        self.die_at(point, signal.SIGSTOP)

        def stopped() -> list[psutil.Process]:
            return [each for each in self._ours("python_daemon") if status_of(each) == psutil.STATUS_STOPPED]

        found: list[psutil.Process] = wait_until(stopped, timeout_s=5, what="a stopped worker")
        (worker,) = found
        return worker

    def recovered(self, kind: str, *, by: Application | None = None) -> float:
        """Waits until everything that is in the input topics now is committed.

        Args:
            kind: what was killed.
            by: the application that goes on, where another one took over.

        Returns:
            Seconds since the kill.
        """
        application = by or self.application
        before = self.committed()
        ends = end_offsets(application.admin, self.topic_partitions)
        behind = sum(max(0, end - before.get(topic_partition, 0)) for topic_partition, end in ends.items())

        def is_committed() -> bool:
            committed = self.committed()
            return all(committed.get(topic_partition, -1) >= end for topic_partition, end in ends.items())

        try:
            wait_until(is_committed, timeout_s=RECOVERY_LIMIT_S, is_claim=True, what=f"recovery from {kind}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{application.log[-6000:]}") from None
        seconds = time.monotonic() - self._killed_at
        self._recoveries.append(Recovery(kind, seconds, behind))
        return seconds

    def wait_until_caught_up(self) -> None:
        """Returns once the committed offsets are the ends of the input topics, internal ones included."""

        def is_caught_up() -> bool:
            # Committed first: only then is everything that these commits sent downstream inside the ends, those whose
            # transaction's marker is still to come included.
            committed = self.committed()
            ends = end_offsets(self.application.admin, self.topic_partitions, End.HIGH_WATERMARK)
            return all(committed.get(topic_partition, -1) >= end for topic_partition, end in ends.items())

        wait_until(is_caught_up, timeout_s=RECOVERY_LIMIT_S, is_claim=True, what="committed = end")

    def committed(self) -> dict[TopicPartition, int]:
        """Committed offsets of the input partitions, asked in the way that outlives a broker, and whatever is open: a
        driver that was killed inside a transaction may have sent others.
        """
        found = committed_offsets(
            self.application.admin, self.application.application_id, self.topic_partitions, stable=False
        )
        return {topic_partition: commit.offset for topic_partition, commit in found.items()}

    def _kill(self, process: psutil.Process) -> None:
        process.kill()
        self._killed_at = time.monotonic()

    def _ours(self, command: str) -> list[psutil.Process]:
        return [each for each, line in _running_with(self._points) if any(command in argument for argument in line)]


def processes_of(points: Path) -> list[psutil.Process]:
    """The processes whose crash points are in ``points``: drivers, executors, workers, wherever they belong."""
    return [process for process, _ in _running_with(points)]


def _running_with(points: Path) -> list[tuple[psutil.Process, list[str]]]:
    """Processes and their command lines."""
    found = []
    for process in psutil.process_iter():
        try:
            command = process.cmdline()
            # A broker that was started again in the middle of a test has the variable too, and outlives the test.
            if command and _BROKER not in command and process.environ().get(DIRECTORY_VARIABLE) == str(points):
                found.append((process, command))
        except psutil.Error:  # it ended meanwhile, or is not ours to look at
            continue
    return found


def status_of(process: psutil.Process) -> str:
    """As psutil names it; dead where it ended meanwhile."""
    try:
        return process.status()
    except psutil.NoSuchProcess:
        return psutil.STATUS_DEAD
