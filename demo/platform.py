"""Broker, Airflow and application of the demo: started, deployed and stopped."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from typing import ClassVar, TypeVar

from demo.airflow_service import AirflowService, start_airflow
from demo.leftovers import end_processes_of
from millrace import launch, operations
from millrace.embedded.broker import HOST, free_ports
from millrace.embedded.record import start_detached, stop_detached
from millrace.errors import MillraceError, OperationError
from millrace.home import HOME_VARIABLE
from millrace.install.application import Application
from millrace.install.home import Home
from millrace.install.spec import load_spec
from millrace.kafka.jars import SPARK_KAFKA_JARS, resolve_jars
from millrace.operations.topics import create_topics

APPLICATION = "fraud-detection"
BOOTSTRAP_VARIABLE = "MILLRACE_BOOTSTRAP_SERVERS"
_DAG = "millrace_deploy"
_RUN = "demo"
_DAG_LIMIT_S = 600.0
_DEPLOY_LIMIT_S = 900.0
_POLL_S = 0.5

# Nothing is lost with what does not end in time: the application is stopped by then.
_AIRFLOW_STOP_LIMIT_S = 5.0

Tell = Callable[[str], None]
AnyPlatform = TypeVar("AnyPlatform", bound="Platform")


class Interrupted(Exception):
    """A signal asked for the end while the platform was still starting."""


@dataclass
class Platform:
    """What the demo has started so far; everything can be stopped at any moment.

    Args:
        home: the demo's own installation: new for each run, so that each run begins with empty topics.
        ended: set when the demo should end.
    """

    home: Home
    ended: Event = field(default_factory=Event)
    bootstrap_servers: str = ""
    airflow: AirflowService | None = None

    name: ClassVar[str] = "demo"
    services: ClassVar[str] = "the broker"

    def decide_addresses(self, tell: Tell) -> None:
        """Where Kafka will be, so that Airflow can start beside it."""
        del tell
        self.bootstrap_servers = f"{HOST}:{free_ports(1)[0]}"

    def start(self, tell: Tell) -> None:
        """The services with the application's topics, and Airflow, side by side.

        Raises:
            Interrupted: it was ended before.
            MillraceError: something did not start.
        """
        self.decide_addresses(tell)
        # For the specification, here and in everything that is started from here on.
        os.environ[BOOTSTRAP_VARIABLE] = self.bootstrap_servers
        with ThreadPoolExecutor() as threads:
            parts = [threads.submit(part, tell) for part in (self._start_services_with_topics, self.start_airflow)]
        for part in parts:
            part.result()

    def _start_services_with_topics(self, tell: Tell) -> None:
        self.start_services(tell)
        for topic in create_topics(load_spec(self.home.spec_path(APPLICATION))):
            tell(f"created topic {topic}")
        resolve_jars(SPARK_KAFKA_JARS, home=self.home.root, progress=tell)

    def start_services(self, tell: Tell) -> None:
        """What applications need, at the addresses that were decided."""
        port = int(self.bootstrap_servers.rpartition(":")[2])
        start_detached(self.home.root, port=port, progress=tell)

    def stop_services(self) -> None:
        """Ends them, whatever of them runs."""
        stop_detached(self.home.root)

    def airflow_settings(self) -> dict[str, str]:
        """Settings over those of every local Airflow."""
        # The files of the DAGs do not change during a demo, and reading them takes the cores that payments need.
        return {
            "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "60",
        }

    def start_airflow(self, tell: Tell) -> None:
        """Airflow, until it answers."""
        self.airflow = start_airflow(self.home, settings=self.airflow_settings(), progress=self._unless_ended(tell))

    def deploy(self, tell: Tell, *, is_at_work: Callable[[], bool]) -> None:
        """Triggers the deploy DAG over Airflow's REST interface and waits until the application is at work.

        Args:
            tell: gets a line of text for each step.
            is_at_work: whether something of the application was seen; then the rest of the DAG is not waited for.

        Raises:
            OperationError: the DAG did not show up, or its run failed; the end of the task's log is in the message.
        """
        assert self.airflow is not None
        client = self.airflow.client()
        tell(f"waiting until Airflow has read {_DAG}")
        self._wait(
            lambda: client.request("GET", f"/dags?dag_id_pattern={_DAG}")["total_entries"] > 0,
            limit_s=_DAG_LIMIT_S,
            what=f"Airflow did not show the DAG {_DAG}",
            remedy=f"see {self.airflow.directory / 'standalone.log'}",
        )
        client.trigger(_DAG, _RUN, {"application": APPLICATION, "reason": f"make {self.name}"})
        tell(f"{_DAG} deploys {APPLICATION}")
        state = ""

        def is_over() -> bool:
            nonlocal state
            if is_at_work():
                return True
            state = client.run_state(_DAG, _RUN)
            return state in {"success", "failed"}

        self._wait(
            is_over,
            limit_s=_DEPLOY_LIMIT_S,
            what=f"{_DAG} did not end within {_DEPLOY_LIMIT_S:.0f} s",
            remedy=f"see {self.home.application(APPLICATION).log}",
            tell=tell,
        )
        if state == "failed":
            log = client.task_log(_DAG, _RUN, "deploy").splitlines()
            raise OperationError(
                f"{_DAG} failed. The end of its task's log: {' | '.join(log[-5:])}",
                # A task that Airflow has ended before it began says nothing itself.
                remedy=f"see {self.home.application(APPLICATION).log} and {self.airflow.directory / 'standalone.log'}",
            )

    @property
    def control_plane(self) -> str:
        """Address of the application's control plane; empty while it has none."""
        control = launch.observe(Application(self.home, APPLICATION)).control
        return control.address if control else ""

    def stop_application(self) -> None:
        """Stops it as planned, so that its supervision ends too; nothing if it does not run."""
        if APPLICATION in self.home.deployed():
            operations.stop(Application(self.home, APPLICATION), reason="the demo ends")

    def stop(self, tell: Tell) -> dict[int, str]:
        """Stops everything; what fails to stop is killed.

        Returns:
            Processes that had to be killed because they were left behind: number and command line.
        """
        steps: list[tuple[str, Callable[[], object]]] = [(APPLICATION, self.stop_application)]
        if self.airflow is not None:
            steps.append(("Airflow", partial(self.airflow.stop, timeout_s=_AIRFLOW_STOP_LIMIT_S)))
        steps.append((self.services, self.stop_services))
        for name, step in steps:
            tell(f"stopping {name}")
            try:
                step()
            except MillraceError as error:
                tell(f"{name}: {error}")
        return end_processes_of(self.home.root)

    def _unless_ended(self, tell: Tell) -> Tell:
        def told(text: str) -> None:
            if self.ended.is_set():
                raise Interrupted
            tell(text)

        return told

    def _wait(
        self, condition: Callable[[], bool], *, limit_s: float, what: str, remedy: str, tell: Tell | None = None
    ) -> None:
        begin = said = time.monotonic()
        while not condition():
            if self.ended.wait(_POLL_S):
                raise Interrupted
            now = time.monotonic()
            if now - begin > limit_s:
                raise OperationError(f"{what}.", remedy=remedy)
            if tell is not None and now - said > 5:
                said = now
                seen = launch.observe(Application(self.home, APPLICATION))
                tell(f"{APPLICATION}: {seen.state or seen.text} ({now - begin:.0f} s)")


def prepare(base: Path, kind: type[AnyPlatform]) -> AnyPlatform:
    """An installation for one run, in ``base/<name of the kind>``; what an earlier run left there is ended and removed.

    The jars are shared with the installation in ``base``. The lock is held until this process ends.

    Raises:
        OperationError: another one of the kind runs.
    """
    base.mkdir(parents=True, exist_ok=True)
    lock = os.open(base / f"{kind.name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise OperationError(f"Another {kind.name} runs in this checkout.", remedy="end it with Ctrl-C") from error
    root = base / kind.name
    end_processes_of(root, timeout_s=0)
    if root.exists():
        shutil.rmtree(root)
    root.mkdir()
    (base / "jars").mkdir(exist_ok=True)
    (root / "jars").symlink_to(base / "jars", target_is_directory=True)
    os.environ[HOME_VARIABLE] = str(root)
    return kind(Home.at(root))
