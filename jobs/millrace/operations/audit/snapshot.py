"""The databases to audit: those of a stopped application, or copies of a running one's at one moment."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from millrace.config import StreamsConfig
from millrace.driver.task_databases import LINK_DATABASES
from millrace.errors import OperationError
from millrace.install.home import ApplicationDirectory
from millrace.install.record import read_record
from millrace.launch.control_client import request_operation
from millrace.state import DirectoryLock, StateDirectory
from millrace.state.directory import DATABASE_DIRECTORY

SCRATCH_DIRECTORY = "audit"
_ANSWER_LIMIT_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Databases that do not change while they are audited.

    Args:
        databases: directory of the database of each task that has one on this host.
        elsewhere: host of each task whose database is not on this one.
        running: whether the application runs.
        held_s: for how long no batch ran, seconds.
        scratch: where the audit may keep files.
    """

    databases: Mapping[str, Path]
    elsewhere: Mapping[str, str]
    running: bool
    held_s: float
    scratch: Path


@contextmanager
def snapshot(directory: ApplicationDirectory, config: StreamsConfig) -> Iterator[Snapshot]:
    """The databases of an application, until the body ends.

    What an audit that was killed left behind is removed.

    Raises:
        StateDirectoryLockedError: another audit runs, or a process that was not deployed here has the stores.
        OperationError: the running application does not answer.
    """
    state = StateDirectory(config.state_dir)
    application = state.application(config.application_id)
    if not application.is_dir():
        raise OperationError(
            f"There is no state of {config.application_id} in {config.state_dir}.",
            remedy="run the audit on the host of the application's stores, with its state.dir",
        )
    scratch = application / SCRATCH_DIRECTORY
    with ExitStack() as closing:
        lock = DirectoryLock(scratch)
        closing.callback(lock.release)
        _empty(scratch)
        closing.callback(_empty, scratch)
        record = read_record(directory)
        if record is not None and record.driver is not None and record.is_driver_alive(directory):
            answer = request_operation(
                directory,
                record.driver,
                LINK_DATABASES,
                {"directory": str(scratch / "databases")},
                timeout_s=_ANSWER_LIMIT_S,
            )
            here = socket.gethostname()
            tasks = {name: each for name, each in answer["tasks"].items() if each["directory"] is not None}
            yield Snapshot(
                databases={name: Path(each["directory"]) for name, each in tasks.items() if each["host"] == here},
                elsewhere={name: each["host"] for name, each in tasks.items() if each["host"] != here},
                running=True,
                held_s=answer["held_s"],
                scratch=scratch,
            )
            return
        databases = {}
        for sub_topology, partition in state.tasks(config.application_id):
            path = state.task(config.application_id, sub_topology, partition)
            task_lock = DirectoryLock(path)
            closing.callback(task_lock.release)
            if (path / DATABASE_DIRECTORY / "CURRENT").exists():
                databases[path.name] = path / DATABASE_DIRECTORY
        yield Snapshot(databases=databases, elsewhere={}, running=False, held_s=0.0, scratch=scratch)


def _empty(scratch: Path) -> None:
    for path in scratch.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
