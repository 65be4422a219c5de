from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from tests.bench.meter import ContestantFailedError
from tests.bench.processes import ContestantProcess

# A child in the same group, and one that leaves it for a session of its own; both ignore SIGTERM.
_FAMILY = """
import os, pathlib, signal, subprocess, sys, time
ignore = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
children = [
    subprocess.Popen([sys.executable, "-c", ignore], stdout=subprocess.PIPE, start_new_session=own)
    for own in (False, True)
]
for child in children:
    child.stdout.readline()
pathlib.Path("pids").write_text(" ".join(str(child.pid) for child in children))
time.sleep(600)
"""


def read_when_there(file: Path) -> str:
    def read() -> str:
        return file.read_text() if file.exists() else ""

    Retrying(retry=retry_if_result(lambda text: not text), stop=stop_after_delay(30), wait=wait_fixed(0.05))(read)
    return read()


def test_the_end_of_a_contestant_is_the_end_of_its_children_also_of_those_that_left_its_group(tmp_path: Path) -> None:
    with ContestantProcess([sys.executable, "-c", _FAMILY], log=tmp_path / "log", directory=tmp_path) as process:
        pids = [int(pid) for pid in read_when_there(tmp_path / "pids").split()]
        process.check_alive()
        assert all(psutil.pid_exists(pid) for pid in pids)
    gone = [not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE for pid in pids]
    assert gone == [True, True]


def test_a_contestant_that_ended_is_told_with_its_status_and_last_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; print('broken jar'); sys.exit(3)"]
    with ContestantProcess(command, log=tmp_path / "log", directory=tmp_path) as process:

        def has_ended() -> bool:
            try:
                process.check_alive()
            except ContestantFailedError:
                return True
            return False

        Retrying(retry=retry_if_result(lambda ended: not ended), stop=stop_after_delay(30), wait=wait_fixed(0.05))(
            has_ended
        )
        with pytest.raises(ContestantFailedError, match=r"status 3(?s:.*)broken jar"):
            process.check_alive()
