"""The demo finds what it started by the environment and the working directory of the processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from demo.leftovers import end_processes_of, processes_of


def start(home: Path, *, directory: Path | None = None) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); import time; time.sleep(60)"],
        env={**os.environ, "MILLRACE_HOME": str(home)},
        cwd=directory,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_only_the_processes_of_one_home_are_found_and_ended(tmp_path: Path) -> None:
    mine, other = start(tmp_path / "mine"), start(tmp_path / "mine-too")
    try:
        assert [process.pid for process in processes_of(tmp_path / "mine")] == [mine.pid]
        killed = end_processes_of(tmp_path / "mine", timeout_s=0)
        assert list(killed) == [mine.pid]
        assert "time.sleep(60)" in killed[mine.pid]
        assert mine.wait(10) == -9
        assert other.poll() is None
        assert processes_of(tmp_path / "mine") == []
    finally:
        for process in (mine, other):
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def test_what_ends_by_itself_in_time_is_not_killed(tmp_path: Path) -> None:
    process = start(tmp_path / "home")
    try:
        begin = time.monotonic()
        process.terminate()
        assert end_processes_of(tmp_path / "home", timeout_s=10) == {}
        assert time.monotonic() - begin < 8
        assert process.wait(10) == -15
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_a_process_that_overwrote_its_environment_is_found_by_where_it_works(tmp_path: Path) -> None:
    """As Airflow's API server does, with its process title."""
    inside = tmp_path / "home" / "airflow"
    inside.mkdir(parents=True)
    process = start(tmp_path / "elsewhere", directory=inside)
    try:
        assert list(end_processes_of(tmp_path / "home", timeout_s=0)) == [process.pid]
        assert process.wait(10) == -9
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
