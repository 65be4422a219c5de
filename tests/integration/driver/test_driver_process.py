from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millrace.driver.control_file import ControlFile
from millrace.driver.driver_options import ExitCode
from millrace.driver.lifecycle import ApplicationState
from millrace.driver.status import ApplicationStatus
from millrace.driver.status_topic import read_statuses
from tests.waiting import PATIENCE, stop_process

Start = Callable[[str], subprocess.Popen[bytes]]


@pytest.fixture
def start(bootstrap_servers: str, unique: str, tmp_path: Path) -> Iterator[Start]:
    made: list[subprocess.Popen[bytes]] = []

    def start_one(name: str) -> subprocess.Popen[bytes]:
        program = Path(__file__).with_name("driver_process.py")
        made.append(subprocess.Popen([sys.executable, str(program), bootstrap_servers, unique, str(tmp_path / name)]))
        return made[-1]

    yield start_one
    for each in made:
        if each.poll() is None:
            each.kill()
        each.wait(10)


def wait_for(bootstrap_servers: str, unique: str, condition: Callable[[ApplicationStatus], bool]) -> ApplicationStatus:
    deadline = time.monotonic() + 60 * PATIENCE
    status = None
    while time.monotonic() < deadline:
        status = read_statuses(bootstrap_servers).get(unique)
        if status is not None and condition(status):
            return status
        time.sleep(0.1)
    raise AssertionError(f"the status did not come in time; last: {status}")


def is_running(status: ApplicationStatus) -> bool:
    return status.state is ApplicationState.RUNNING


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_gracefully_with_exit_code_0(
    start: Start, bootstrap_servers: str, unique: str, tmp_path: Path, number: signal.Signals
) -> None:
    process = start("one")
    status = wait_for(bootstrap_servers, unique, is_running)
    control = ControlFile.read(tmp_path / "one" / "control.json")
    assert (control.pid, control.address) == (process.pid, status.control_address)
    assert status.driver.process == control.process
    process.send_signal(number)
    assert process.wait(30) == ExitCode.STOPPED
    final = read_statuses(bootstrap_servers)[unique]
    assert (final.state, final.reason) == (ApplicationState.NOT_RUNNING, f"stopped by {number.name}")
    assert final.offsets == {"in": {0: 5}}
    assert not (tmp_path / "one" / "control.json").exists()


def test_of_two_drivers_the_older_stops_itself_and_the_newer_goes_on(
    start: Start, bootstrap_servers: str, unique: str
) -> None:
    older = start("older")
    wait_for(bootstrap_servers, unique, is_running)
    newer = start("newer")
    assert older.wait(60) == ExitCode.FENCED
    status = wait_for(bootstrap_servers, unique, lambda each: is_running(each) and each.driver_epoch == 2)
    assert status.driver.pid == newer.pid
    newer.terminate()
    assert newer.wait(30) == ExitCode.STOPPED


@pytest.mark.kills
def test_after_a_kill_the_next_driver_takes_over_with_a_higher_epoch(
    start: Start, bootstrap_servers: str, unique: str
) -> None:
    killed = start("killed")
    wait_for(bootstrap_servers, unique, is_running)
    killed.kill()
    killed.wait(10)
    assert read_statuses(bootstrap_servers)[unique].state is ApplicationState.RUNNING
    start("next")
    wait_for(bootstrap_servers, unique, lambda each: is_running(each) and each.driver_epoch == 2)


def test_a_suspended_driver_finds_on_waking_that_it_was_replaced(
    start: Start, bootstrap_servers: str, unique: str
) -> None:
    older = start("older")
    wait_for(bootstrap_servers, unique, is_running)
    stop_process(older.pid)
    start("newer")
    wait_for(bootstrap_servers, unique, lambda each: is_running(each) and each.driver_epoch == 2)
    older.send_signal(signal.SIGCONT)
    assert older.wait(60) == ExitCode.FENCED
    assert read_statuses(bootstrap_servers)[unique].driver_epoch == 2
