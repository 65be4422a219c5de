from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from millrace.state.restore_slots import RestoreSlots


def test_no_more_restorations_run_at_once_than_there_are_places(tmp_path: Path) -> None:
    inside, most, guard = 0, 0, threading.Lock()
    both_inside = threading.Barrier(2)

    def restore(meets: bool) -> None:
        nonlocal inside, most
        with RestoreSlots(tmp_path, 2).slot():
            with guard:
                inside += 1
                most = max(most, inside)
            if meets:
                both_inside.wait(20)
            with guard:
                inside -= 1

    first = [threading.Thread(target=restore, args=(True,)) for _ in range(2)]
    for thread in first:
        thread.start()
    for thread in first:
        thread.join(30)
    assert most == 2
    rest = [threading.Thread(target=restore, args=(False,)) for _ in range(6)]
    for thread in rest:
        thread.start()
    for thread in rest:
        thread.join(30)
    assert (most, inside) == (2, 0)


def test_the_place_of_a_process_that_was_killed_is_free(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib\nfrom millrace.state.restore_slots import RestoreSlots\n"
        f"with RestoreSlots(pathlib.Path({str(tmp_path)!r}), 1).slot():\n"
        "    print('held', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        descriptor = os.open(tmp_path / "0", os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            taken = True
        except BlockingIOError:
            taken = False
        finally:
            os.close(descriptor)
        assert not taken
        holder.send_signal(signal.SIGKILL)
        holder.wait(20)
    with RestoreSlots(tmp_path, 1).slot() as number:
        assert number == 0
