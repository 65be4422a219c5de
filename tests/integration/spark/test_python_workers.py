"""Python workers are forked from one daemon, which has imported everything while Spark came up."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.application import Application
from tests.integration.spark.conftest import World

_PROGRAM = """
import json, os, sys
import pyarrow as pa
from millrace.config import ProcessingEngine, StreamsConfig
from millrace.spark.python_daemon import PRELOADED
from millrace.spark.session import open_session

def look(_):
    yield os.getppid(), [name for name in PRELOADED if name not in sys.modules]

def look_in_arrow(batches):
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"seen": [json.dumps(next(look(None)))]})

config = StreamsConfig.from_mapping({"application.id": "a", "bootstrap.servers": "localhost:1"})
start = open_session(config, ProcessingEngine.STREAM_THREADS)
session = start.session.result()
start.workers.result()
seen = session.sparkContext.parallelize(range(2), 2).mapPartitions(look).collect()
seen += [json.loads(row.seen) for row in session.range(0, 2, 1, 2).mapInArrow(look_in_arrow, "seen string").collect()]
print("SEEN", json.dumps(seen))
session.stop()
"""


def test_workers_of_queries_and_those_that_were_started_early_come_from_one_daemon_with_everything_imported() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("SEEN ")]
    seen = json.loads(line.removeprefix("SEEN "))
    assert len(seen) == 4
    assert len({daemon for daemon, _ in seen}) == 1
    assert [missing for _, missing in seen] == [[]] * 4


@pytest.fixture
def without_daemon(world: World) -> Application:
    world.create("in", "out")
    return world.application("copying", "daemonless", config={"spark.python.daemon.module": "millrace.no_such_daemon"})


def test_a_driver_whose_workers_cannot_start_ends_and_says_why(without_daemon: Application) -> None:
    assert without_daemon.start().wait_for_exit() == 1
    assert "No module named millrace.no_such_daemon" in without_daemon.log
