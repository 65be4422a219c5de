"""One embedded broker for a whole test run, shared by all of its pytest-xdist workers.

The process that the run was started with owns a directory, named after its identity. The first worker that needs a
broker starts it there, under a lock; the owner stops it at the end. Runs whose owner is gone (killed) are cleaned up
by the next one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from millrace.embedded.broker import EmbeddedBroker
from millrace.embedded.record import read_record, write_record
from millrace.processes import ProcessIdentity

RUN_VARIABLE = "MILLRACE_TEST_RUN"

# Tests count records and offsets of topics with old timestamps; nothing may disappear meanwhile.
BROKER_PROPERTIES = {
    "log.retention.ms": "-1",
    # Windowed changelogs expire by the broker's clock, and the records of the tests are of 1970: nothing is looked for.
    "log.retention.check.interval.ms": "86400000",
    "log.initial.task.delay.ms": "86400000",
    # The cleaner, too, deletes what has expired of topics that are compacted and deleted.
    "log.cleaner.backoff.ms": "86400000",
    "num.io.threads": "4",
    # Records of no meaning, twice a second, would be half of what an idle broker computes.
    "metadata.max.idle.interval.ms": "0",
}


def runs_directory() -> Path:
    """Where all test runs of this user keep their directories."""
    return Path(tempfile.gettempdir()) / f"millrace-tests-{os.getuid()}"


def open_run() -> Path:
    """Make this process the owner of a run: its directory, known to its workers through the environment."""
    _sweep()
    owner = ProcessIdentity.current()
    directory = runs_directory() / f"{owner.pid}-{owner.start_time}"
    directory.mkdir(parents=True)
    os.environ[RUN_VARIABLE] = str(directory)
    return directory


def close_run(directory: Path) -> None:
    """End what the run started and remove its directory."""
    _end_broker(directory / "broker")
    shutil.rmtree(directory)
    del os.environ[RUN_VARIABLE]


@contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """Only one process of the run is inside at a time."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def shared_broker_address() -> str:
    """``host:port`` of the run's broker, started by the first caller of all workers."""
    directory = Path(os.environ[RUN_VARIABLE]) / "broker"
    directory.mkdir(parents=True, exist_ok=True)
    with exclusive(directory / ".lock"):
        record = read_record(directory)
        if record is not None and record[0].is_alive():
            return record[1]
        broker = EmbeddedBroker(directory, properties=BROKER_PROPERTIES)
        broker.start()
        write_record(broker)
        return broker.bootstrap_servers


def _sweep() -> None:
    for directory in runs_directory().glob("*-*"):
        pid, _, start_time = directory.name.partition("-")
        if not ProcessIdentity(int(pid), int(start_time)).is_alive():
            _end_broker(directory / "broker")
            shutil.rmtree(directory, ignore_errors=True)  # another run may sweep at the same moment


def _end_broker(directory: Path) -> None:
    record = read_record(directory)
    if record is not None and record[0].signal_group(signal.SIGKILL):
        record[0].wait_until_gone(10)
