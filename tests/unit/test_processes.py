"""Which process is alive."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from millrace.processes import ProcessIdentity
from tests.waiting import eventually

WITHOUT_ITS_FIRST_THREAD = """
import ctypes, sys, threading
def work():
    sys.stdin.readline()
threading.Thread(target=work).start()
print("working", flush=True)
ctypes.CDLL(None).pthread_exit(None)
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


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
