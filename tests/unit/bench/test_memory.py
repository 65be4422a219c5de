from __future__ import annotations

import subprocess
import sys

from tests.bench.memory import MemoryMeter

_SPAWNS = """
import subprocess, sys
held = bytearray(64 << 20)
child = subprocess.Popen([sys.executable, "-c", "held = bytearray(64 << 20); print('held', flush=True); input()"])
child.wait()
"""


def test_the_most_memory_of_a_process_and_its_child_together_is_kept() -> None:
    with subprocess.Popen([sys.executable, "-c", _SPAWNS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        meter = MemoryMeter(process.pid)
        meter.look()
        process.communicate(b"\n")
    MemoryMeter(process.pid).look()
    assert 128 << 20 <= meter.processes_bytes < 256 << 20
    assert meter.worker_bytes == 0, "none of them was forked by a Python daemon"
