"""The process that follows the databases: reads messages from its standard input, and answers them in order.

Bringing a secondary to the last commit replays what was written since, and no other thread of the process runs
meanwhile: RocksDB's binding keeps the interpreter for it. So the databases are followed by processes of their own.
A message is the 4-byte length of a pickle and the pickle; it ends with its standard input, so also when the server is
killed.
"""

from __future__ import annotations

import gc
import os
import pickle
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from millrace.logs import configure_logs
from millrace.queries.local_tasks import LocalTasks
from millrace.queries.requests import Found, Lookup, StoreQuery, TaskId, View
from millrace.topology.stores import StoreSpec

LENGTH = struct.Struct(">I")


@dataclass(frozen=True, kw_only=True)
class Follow:
    """The first message: the application and stores to follow.

    Args:
        state_dir: the setting ``state.dir``.
        application_id: the application.
        stores: the stores that can be queried, without their serdes.
    """

    state_dir: str
    application_id: str
    stores: Mapping[str, StoreSpec]


@dataclass(frozen=True)
class CatchUp:
    """The command to bring all databases to the last commit; the answer is ``None``."""


@dataclass(frozen=True)
class Ask:
    """A query to a task; the answer is a ``StoreAnswer`` or the error. A ``Lookup`` is a message of its own."""

    task: TaskId
    query: StoreQuery
    standby: bool


def encode(message: object) -> bytes:
    """Returns a message as the bytes that are sent through the pipe."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(data)) + data


def _read(source: BinaryIO) -> Any:
    head = source.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    return pickle.loads(source.read(LENGTH.unpack(head)[0]))


def main() -> None:
    """Answers messages until the standard input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    # Whatever prints would otherwise get between the answers.
    os.dup2(2, 1)
    configure_logs()
    source = sys.stdin.buffer
    first = _read(source)
    if not isinstance(first, Follow):
        return
    following = _Following(LocalTasks(first.state_dir, first.application_id, first.stores))
    # What has been imported stays: no collection needs to go through it while a reader waits.
    gc.freeze()
    try:
        while (message := _read(source)) is not None:
            answers.write(encode(following.answer(message)))
            answers.flush()
    finally:
        following.tasks.close()


class _Following:
    """The answers to the messages of one server."""

    def __init__(self, tasks: LocalTasks) -> None:
        self.tasks = tasks
        self._reported: dict[TaskId, View] = {}

    def answer(self, message: object) -> object:
        try:
            if isinstance(message, Lookup):
                return self._look_up(message)
            if isinstance(message, Ask):
                return self.tasks.answer(message.task, message.query, standby=message.standby)
            self.tasks.catch_up()
            return None
        except Exception as error:
            return error

    def _look_up(self, lookup: Lookup) -> Found:
        found, view = self.tasks.look_up(lookup)
        if self._reported.get(lookup.task) is view:
            return Found(found, None)
        self._reported[lookup.task] = view
        return Found(found, view)
