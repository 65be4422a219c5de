"""Ending Airflow: everything that it started goes, also what outlives its leader."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

from millrace.ops.airflow_service import AirflowService
from millrace.processes import ProcessIdentity

# A leader that ends on SIGTERM, with a component that does not.
_LEADER = """
import subprocess, sys, time
stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
child = subprocess.Popen([sys.executable, "-c", stubborn], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(60)
"""


def test_a_component_that_outlives_the_leader_is_killed_within_the_limit(tmp_path: Path) -> None:
    leader = subprocess.Popen(
        [sys.executable, "-c", _LEADER],
        env={**os.environ, "AIRFLOW_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert leader.stdout is not None
    component = int(leader.stdout.readline())
    process = ProcessIdentity.of(leader.pid)
    assert process is not None
    service = AirflowService(process=process, address="http://127.0.0.1:1", directory=tmp_path, password="")
    begin = time.monotonic()
    service.stop(timeout_s=1.0)
    assert time.monotonic() - begin < 8
    assert leader.wait(5) == -15
    assert not psutil.pid_exists(component) or psutil.Process(component).status() == psutil.STATUS_ZOMBIE
    leader.stdout.close()


def test_stopping_what_has_ended_does_nothing(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    identity = ProcessIdentity(ended.pid, 1)
    ended.wait()
    AirflowService(process=identity, address="", directory=tmp_path, password="").stop(timeout_s=1.0)
