"""Runs an application as its users do: a specification, a driver process, its control plane, the broker's view of it.

A topology of a test is a function in a test module that takes a ``StreamsBuilder``. Its topics are named by
:func:`topic`, so that one function serves any number of tests on a shared broker.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakSet

import httpx
import orjson
import psutil
import yaml
from confluent_kafka import KafkaException

from millrace.driver.status import ApplicationStatus
from millrace.driver.status_topic import read_statuses
from millrace.errors import MillraceError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.java import QUICK_TO_START
from millrace.kafka.offsets import End, committed_offsets, end_offsets
from millrace.tls import tls_context
from millrace.topology.topic_partition import TopicPartition
from tests.waiting import PATIENCE

PREFIX_VARIABLE = "MILLRACE_TEST_TOPICS"
ENGINE_VARIABLE = "MILLRACE_TEST_ENGINE"
"""Names the ``processing.engine`` of every application of a test run that does not choose one itself."""

ROOT = Path(__file__).resolve().parents[1]
SEARCH_PATH = os.pathsep.join(str(ROOT / part) for part in ("jobs", "", "plugins"))
"""``PYTHONPATH`` of what a test starts: this tree comes before what is installed, and topologies of tests are found."""

START_LIMIT_S = 240.0
"""Longest time from launch to RUNNING; a start takes 15 to 25 s on two quiet cores, several times that on busy ones."""

_FIRST_POLL_S, _LONGEST_POLL_S = 0.02, 0.25
"""How long it waits before it looks again, at first and at most: each look has the driver and the broker work."""
_SET_PARENT_DEATH_SIGNAL = 1


def topic(name: str) -> str:
    """The full name of a test's topic, inside the driver: ``<prefix>-<name>``."""
    return f"{os.environ[PREFIX_VARIABLE]}-{name}"


def wait_until(condition: Callable[[], Any], *, timeout_s: float, what: str, is_claim: bool = False) -> Any:
    """The first true answer of ``condition``.

    A broker or driver that cannot be asked for the moment counts as no answer.

    Args:
        condition: asked again and again.
        timeout_s: longest time on two quiet cores, seconds; elsewhere up to :data:`~tests.waiting.PATIENCE` times that.
        what: is waited for.
        is_claim: whether the test says that it comes within this time, whatever the machine.

    Raises:
        AssertionError: none came in time; the message says ``what`` was waited for, and the last answer or problem.
    """
    timeout_s *= 1 if is_claim else PATIENCE
    deadline = time.monotonic() + timeout_s
    pause_s = _FIRST_POLL_S
    last: Any = None
    while time.monotonic() < deadline:
        try:
            last = condition()
            if last:
                return last
        except (MillraceError, KafkaException, httpx.HTTPError) as error:
            last = error
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, _LONGEST_POLL_S)
    raise AssertionError(f"{what}: not within {timeout_s:g} s; last: {last!r}")


def _die_with_the_test() -> None:
    """For the driver's process: also a killed test run leaves nobody behind, since a driver's JVM ends with it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


STARTED: WeakSet[Application] = WeakSet()
"""Those that this process has started; a test that fails shows the logs of those that run."""


class Application:
    """One application and the process that drives it, which may be started again and again.

    Args:
        bootstrap_servers: the broker.
        application_id: its name.
        module: ``package.module:function`` of its topology.
        directory: where its specification, run directory, state and logs go.
        config: settings over those of every test.
        prefix: of the topics that :func:`topic` names; the application's name by default.
        environment: variables of the driver over those of the test.
        launcher: the specification's ``launcher`` section.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        application_id: str,
        module: str,
        directory: Path,
        *,
        config: Mapping[str, Any] | None = None,
        prefix: str | None = None,
        environment: Mapping[str, str] | None = None,
        launcher: Mapping[str, Any] | None = None,
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.application_id = application_id
        self.module = module
        self.directory = directory
        self.run_directory = directory / "run"
        self.state_directory = directory / "state"
        self.config: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "state.dir": str(self.state_directory),
            "commit.interval.ms": 250,
            **({"processing.engine": os.environ[ENGINE_VARIABLE]} if ENGINE_VARIABLE in os.environ else {}),
            "heartbeat.interval.ms": 1000,
            "spark.driver.extraJavaOptions": " ".join(QUICK_TO_START),
            **(config or {}),
        }
        self.launcher = {"kind": "local", "parallelism": 2, "driver_memory": "768m", **(launcher or {})}
        self.environment = {
            PREFIX_VARIABLE: prefix or application_id,
            "PYTHONPATH": SEARCH_PATH,
            **(environment or {}),
        }
        self.admin = KafkaAdmin(bootstrap_servers)
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0

    @property
    def pid(self) -> int:
        """Number of the driver's process, which leads its session."""
        assert self._process is not None, "the application was never started"
        return self._process.pid

    @property
    def log(self) -> str:
        """What the driver, its JVM and its workers wrote since the last start."""
        path = self._log_path()
        return path.read_text(errors="replace") if path.exists() else ""

    def write_specification(self) -> Path:
        """Writes the specification as ``config`` and ``launcher`` are now."""
        self.run_directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / "spec.yaml"
        document = {
            "name": self.application_id,
            "module": self.module,
            "config": self.config,
            "launcher": self.launcher,
        }
        path.write_text(yaml.safe_dump(document))
        return path

    def start(self) -> Application:
        """Launches the driver and returns at once."""
        assert self._process is None or self._process.poll() is not None, "the driver still runs"
        specification = self.write_specification()
        self._starts += 1
        STARTED.add(self)
        command = [sys.executable, "-m", "millrace", "run", str(specification)]
        command += ["--run-directory", str(self.run_directory)]
        with self._log_path().open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                cwd=ROOT,
                env={**os.environ, **self.environment},
                start_new_session=True,
                preexec_fn=_die_with_the_test,  # noqa: PLW1509 - it calls the kernel only
            )
        return self

    def start_and_wait(self) -> Application:
        """Launches the driver and returns once it is RUNNING."""
        return self.start().wait_until_running()

    def wait_until_running(self, timeout_s: float = START_LIMIT_S) -> Application:
        """Returns once the application is RUNNING."""
        self.wait_for(lambda status: status.state == "RUNNING", timeout_s=timeout_s, what="state RUNNING")
        return self

    def wait_for(
        self, condition: Callable[[ApplicationStatus], Any], *, timeout_s: float, what: str, is_claim: bool = False
    ) -> Any:
        """The first true answer of ``condition`` about ``/status``; fails at once when the driver ends."""

        def ask() -> Any:
            self._fail_if_ended(what)
            status = self.status()
            return status is not None and condition(status)

        return wait_until(ask, timeout_s=timeout_s, what=f"{self.application_id}: {what}", is_claim=is_claim)

    def wait_until_caught_up(self, timeout_s: float = 60.0) -> None:
        """Returns once everything that is on the input topics now, internal ones included, is committed, and the driver
        has heard of it: then its metrics have it too.
        """

        def caught_up() -> bool:
            self._fail_if_ended("catching up")
            topic_partitions = self.inputs()
            # Committed first: only then is everything that these commits sent downstream inside the ends. A commit may
            # be seen before its marker stands behind what it sent, so that would not be below the last stable offset.
            committed = self.committed()
            ends = end_offsets(self.admin, topic_partitions, End.HIGH_WATERMARK)
            if not topic_partitions or not all(
                committed.get(topic_partition, -1) >= ends[topic_partition] for topic_partition in topic_partitions
            ):
                return False
            status = self.status()
            return status is not None and all(
                status.offsets.get(topic, {}).get(number, -1) >= ends[topic, number]
                for topic, number in topic_partitions
            )

        wait_until(caught_up, timeout_s=timeout_s, what=f"{self.application_id}: committed = end")

    def inputs(self) -> list[TopicPartition]:
        """The partitions of the topics that the running application reads, internal ones included."""
        status = self.status()
        if status is None:
            return []
        return [(name, number) for name, count in status.partitions.items() for number in range(count)]

    def committed(self) -> dict[TopicPartition, int]:
        """Committed offsets of the application's group, as the broker has them."""
        found = committed_offsets(self.admin, self.application_id)
        return {topic_partition: commit.offset for topic_partition, commit in found.items()}

    def status(self) -> ApplicationStatus | None:
        """``/status`` of the running driver; ``None`` while its control plane does not answer."""
        address = self.control_address()
        if address is None:
            return None
        return ApplicationStatus.from_json(
            httpx.get(f"{address}/status", timeout=10 * PATIENCE, verify=tls_context()).content
        )

    def published_status(self) -> ApplicationStatus | None:
        """The application's record in the status topic, which outlives the driver."""
        return read_statuses(self.bootstrap_servers).get(self.application_id)

    def control_address(self) -> str | None:
        """``http://host:port`` of the control plane; ``None`` while there is none."""
        path = self.run_directory / "control.json"
        try:
            document = orjson.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        return document["address"] if document["pid"] == self.pid else None

    def metrics(self) -> dict[str, float]:
        """``/metrics`` as ``{'name{label="value"}': number}``."""
        text = httpx.get(f"{self.control_address()}/metrics", timeout=10 * PATIENCE, verify=tls_context()).text
        lines = [line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#")]
        return {name: float(value) for name, _, value in lines}

    def metric(self, name: str, **labels: str) -> float:
        """Sum of a metric's samples that carry these labels; 0 where there is none."""
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(
            value
            for sample, value in self.metrics().items()
            if sample.partition("{")[0] == name and all(label in sample for label in wanted)
        )

    def post(self, action: str) -> httpx.Response:
        """``POST /<action>`` with the application's token."""
        token = (self.run_directory / "control.token").read_text().strip()
        return httpx.post(
            f"{self.control_address()}/{action}",
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
            verify=tls_context(),
        )

    def is_alive(self) -> bool:
        """Whether the driver's process runs."""
        return self._process is not None and self._process.poll() is None

    def wait_for_exit(self, timeout_s: float = START_LIMIT_S) -> int:
        """The driver's exit code.

        Raises:
            AssertionError: it did not end in time.
        """
        assert self._process is not None, "the application was never started"
        timeout_s *= PATIENCE
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"{self.application_id} still runs after {timeout_s:g} s:\n{self.end_of_log()}"
            ) from None
        # The JVM and the workers end by themselves, but a moment later; they may hold the state directory.
        self._end_session()
        return code

    def stop(self, timeout_s: float = 60.0) -> int:
        """Asks the driver to stop (SIGTERM) and gives its exit code."""
        assert self._process is not None, "the application was never started"
        self._process.send_signal(signal.SIGTERM)
        return self.wait_for_exit(timeout_s)

    def kill(self) -> None:
        """Ends the driver, its JVM and its workers at once (SIGKILL), as a power cut would."""
        self._end_session()
        if self._process is not None:
            self._process.wait(10)

    def session(self) -> list[psutil.Process]:
        """The live processes of the driver's session: driver, JVM, Python daemon and workers."""
        members = []
        for pid in psutil.pids():
            try:
                if os.getsid(pid) == self.pid and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                    members.append(psutil.Process(pid))
            except (ProcessLookupError, psutil.NoSuchProcess):
                continue
        return members

    def workers(self) -> Sequence[int]:
        """Process numbers of the Python workers that ran the tasks last."""
        status = self.status()
        return sorted({int(host.rpartition("/")[2]) for host in status.task_hosts.values()}) if status else []

    def errors(self) -> str:
        """The lines of the log that tell of errors."""
        return "\n".join(line for line in self.log.splitlines() if "rror" in line)

    def _fail_if_ended(self, what: str) -> None:
        if not self.is_alive():
            code = self._process.returncode if self._process else None
            raise AssertionError(f"{self.application_id} ended with {code} before {what}:\n{self.end_of_log()}")

    def end_of_log(self) -> str:
        """The last lines that the driver, its JVM and its workers wrote."""
        return "\n".join(self.log.splitlines()[-40:])

    def _log_path(self) -> Path:
        return self.directory / f"driver-{self._starts}.log"

    def _end_session(self) -> None:
        if self._process is None:
            return
        deadline = time.monotonic() + 20 * PATIENCE
        while members := self.session():
            for member in members:
                # It may have ended by itself since it was listed.
                with contextlib.suppress(psutil.NoSuchProcess):
                    member.kill()
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.application_id}: {members} survive SIGKILL")
            psutil.wait_procs(members, timeout=1)
