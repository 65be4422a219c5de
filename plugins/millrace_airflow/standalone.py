"""``python -m millrace_airflow.standalone``: Airflow on one host, for tests, the demo and a developer's machine.

It runs the components of ``airflow standalone``. That one starts four commands, and each of them, each parsed DAG file
and each task then imports Airflow and Millrace again, which takes most of the time until a DAG has run. Here one
process imports both once, starts no thread, and forks the components, which fork in turn what parses files and runs
tasks. What was imported stays as it is until the next start, Millrace's modules included.

The scheduler begins once the API server answers: tasks report to that one, and those of schedules that are due would
ask in vain, again and again, while it starts.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from types import FrameType

import httpx
from setproctitle import setproctitle

from millrace.garbage import collector_paused
from millrace.tls import tls_context

PRELOADED = (
    "airflow.api_fastapi.app",
    "airflow.cli.commands.api_server_command",
    "airflow.cli.commands.dag_processor_command",
    "airflow.cli.commands.scheduler_command",
    "airflow.cli.commands.triggerer_command",
    "airflow.dag_processing.manager",
    "airflow.jobs.dag_processor_job_runner",
    "airflow.jobs.scheduler_job_runner",
    "airflow.jobs.triggerer_job_runner",
    "airflow.sdk.execution_time.supervisor",
    "airflow.sdk.execution_time.task_runner",
    "millrace.insight",
    "millrace.supervise",
    "millrace_airflow.dag_parts",
    "millrace_airflow.operators",
    "millrace_airflow.sensors",
    "millrace_airflow.triggers",
    "millrace_airflow.ui",
)
_POLL_S = 0.2


class Components:
    """The components that run, by process number; as long as one is missing the process waits for the others only."""

    def __init__(self) -> None:
        self._running: dict[int, str] = {}
        self._is_asked_to_end = False

    def start(self, name: str) -> None:
        """Fork a component."""
        self._running[_fork(name, partial(_run, name))] = name

    def start_once(self, name: str, condition: Callable[[], bool]) -> None:
        """Fork a component as soon as the condition is true; not at all when it is asked to end before that."""
        while not condition():
            time.sleep(_POLL_S)
            if self._is_asked_to_end:
                return
        self.start(name)

    def end(self, _number: int, _frame: FrameType | None) -> None:
        """Ask all of them to end."""
        self._is_asked_to_end = True
        for pid in self._running:
            os.kill(pid, signal.SIGTERM)

    def wait(self) -> int:
        """Wait until all of them have ended; none is replaced. The exit code: 1 where one ended without being asked."""
        code = 0
        while self._running:
            pid, status = os.wait()
            if name := self._running.pop(pid, None):
                code = code or int(not self._is_asked_to_end)
                sys.stderr.write(f"airflow {name} ended with {os.waitstatus_to_exitcode(status)}\n")
                sys.stderr.flush()
        return code


def main() -> int:
    """Import, prepare the database, and run the components until all of them have ended; the exit code."""
    with collector_paused():
        for name in PRELOADED:
            importlib.import_module(name)
    # A fork copies the locks of other threads, and not the threads that would release them.
    if threading.active_count() > 1:
        raise RuntimeError(f"an import has started threads: {threading.enumerate()}")
    _, status = os.waitpid(_fork("database", _make_database), 0)
    if code := os.waitstatus_to_exitcode(status):
        return code
    components = Components()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, components.end)
    for name in ("api-server", "dag-processor", "triggerer"):
        components.start(name)
    components.start_once("scheduler", _api_server_answers)
    return components.wait()


def _fork(title: str, run: Callable[[], object]) -> int:
    pid = os.fork()
    if pid:
        return pid
    setproctitle(f"airflow {title}")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    code = 1
    try:
        run()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _make_database() -> None:
    from airflow.utils import db

    db.initdb()


def _run(component: str) -> None:
    from airflow.__main__ import main as airflow

    sys.argv = ["airflow", component]
    airflow()


def _api_server_answers() -> bool:
    from airflow.configuration import conf

    address = f"http://127.0.0.1:{conf.getint('api', 'port')}/api/v2/version"
    try:
        return httpx.get(address, timeout=30, trust_env=False, verify=tls_context()).is_success
    except httpx.HTTPError:
        return False


if __name__ == "__main__":
    sys.exit(main())
