"""What Spark forks its Python workers from: in processes of their own, since what is imported stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys

_BEGIN = """
import json, os, sys
from pathlib import Path
from millrace.spark.python_daemon import PRELOADED, preload

def in_child(function):
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, json.dumps(function()).encode())
        os._exit(0)
    os.wait()
    return json.loads(os.read(reading, 65536))

def say(value):
    print(json.dumps(value))
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    # As Spark sets it for its workers.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _BEGIN + program],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_a_worker_has_all_its_modules_and_the_compiled_loops_when_it_is_forked() -> None:
    done = run("""
preload()

def look():
    from millrace.kafka.columns.layout_check import checked_kernel
    from millrace.serdes.json_kernel import json_kernel
    names = (*PRELOADED, "millrace.task.task", "pandas")
    compiled = [loops.cache_info().currsize for loops in (checked_kernel, json_kernel)]
    return [name in sys.modules for name in names], compiled

say(in_child(look))
""")
    assert json.loads(done.stdout) == [[True] * 5, [1, 1]]


def test_it_leaves_no_thread_that_a_worker_would_lack_and_writes_nothing_where_spark_reads_a_port() -> None:
    done = run("""
preload()
sys.stdout.flush()
print("THREADS", *sorted(task.joinpath("comm").read_text().strip() for task in Path("/proc/self/task").iterdir()))
""")
    assert done.stdout.startswith("THREADS "), done.stdout
    main, *others = done.stdout.split()[1:][::-1]
    assert main.startswith("python")
    # Of pyarrow's allocator, which goes on without it in a fork.
    assert others in ([], ["jemalloc_bg_thd"])


def test_workers_draw_different_numbers() -> None:
    done = run("""
import numpy
preload()
draw = lambda: numpy.random.random(4).tolist()
say([in_child(draw), in_child(draw)])
""")
    one, other = json.loads(done.stdout)
    assert one != other


def test_loops_that_cannot_be_had_are_left_to_the_worker_which_says_so_once() -> None:
    done = run("""
from millrace.kafka.columns import layout_check
from millrace.kafka.columns.c_interface import InterfaceUnavailableError

def unavailable():
    raise InterfaceUnavailableError("there is no such library here")

layout_check.librdkafka = unavailable
preload()
sys.stdout.flush()

def read():
    from millrace.kafka.columns import choice
    return [choice._chosen(""), choice._chosen("")]

say(in_child(read))
""")
    *said, answer = done.stdout.splitlines()
    assert json.loads(answer) == ["consumer", "consumer"]
    assert len(said) == 1
    assert "there is no such library here" in said[0]
    assert "no such library" not in done.stderr
