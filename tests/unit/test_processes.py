"""Which process is alive."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from millrace.processes import ProcessIdentity, run_to_the_end
from tests.waiting import eventually

WITHOUT_ITS_FIRST_THREAD = """
import ctypes, sys, threading
def work():
    sys.stdin.readline()
threading.Thread(target=work).start()
print("working", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


WAITS_FOR_A_SLEEPER = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]).wait()
"""


@contextmanager
def process(source: str) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        [sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def test_a_process_lives_until_its_last_thread_has_ended() -> None:
    with process(WITHOUT_ITS_FIRST_THREAD) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        assert child.stdout.readline() == "working\n"
        eventually(lambda: state_of(child.pid), "Z")
        identity = ProcessIdentity.of(child.pid)
        assert identity is not None
        assert identity.is_alive()
        child.stdin.write("end\n")
        child.stdin.flush()
        assert identity.wait_until_gone(10)
        # Nobody has waited for it: it is still in the kernel's table.
        assert state_of(child.pid) == "Z"


STARTS_A_SLEEPER = """
import pathlib, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
pathlib.Path("pid").write_text(str(child.pid))
"""


def is_gone(directory: Path) -> bool:
    return ProcessIdentity.of(int((directory / "pid").read_text())) is None


@pytest.mark.parametrize("code", [0, 3])
def test_what_a_command_leaves_is_ended(code: int, tmp_path: Path) -> None:
    source = f"{STARTS_A_SLEEPER}\nprint('said')\nsys.exit({code})"
    # Its output ends with it, and not with the sleeper, which has it too.
    done = run_to_the_end([sys.executable, "-c", source], timeout_s=30, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "said\n")
    eventually(lambda: is_gone(tmp_path), expected=True)


def test_a_command_that_takes_too_long_is_ended_with_what_it_started(tmp_path: Path) -> None:
    source = f"{STARTS_A_SLEEPER}\nchild.wait()"
    with pytest.raises(subprocess.TimeoutExpired):
        run_to_the_end([sys.executable, "-c", source], timeout_s=3, cwd=tmp_path)
    eventually(lambda: is_gone(tmp_path), expected=True)


def test_an_interrupted_caller_leaves_nothing() -> None:
    source = (
        "from millrace.processes import run_to_the_end\n"
        f"run_to_the_end([{sys.executable!r}, '-c', {WAITS_FOR_A_SLEEPER!r}], timeout_s=60)"
    )
    with process(source) as caller:
        children: list[psutil.Process] = []

        def started() -> bool:
            children[:] = psutil.Process(caller.pid).children(recursive=True)
            return len(children) == 2

        eventually(started, expected=True)
        caller.send_signal(signal.SIGINT)
        assert caller.wait(20) != 0
        for child in children:
            eventually(child.is_running, expected=False)


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_child_that_has_ended_has_an_identity_until_it_is_waited_for() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    eventually(lambda: ProcessIdentity.of(child.pid), None)
    identity = ProcessIdentity.of_child(child)
    assert identity.pid == child.pid
    assert not identity.is_alive()
    child.wait()
    with pytest.raises(ProcessLookupError):
        ProcessIdentity.of_child(child)
