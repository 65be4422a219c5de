"""The messages between a stream thread and the driver's coordinator: plain data, encoded as JSON.

* An ``Assign`` is the *complete* set of tasks that a thread has from then on, and has a number that grows
  (``generation``). What is new in it is opened, what is missing is handed over at the task's next commit, what is in it
  with ``paused`` pauses after its next commit. A thread ignores an ``Assign`` that is not newer than its last one, so
  that it does no harm when one comes late, twice or never.
* A ``Report`` is the complete set of tasks that a thread has, with the generation that it follows by then. A task that
  the generation has and the report has not was released. So a lost report is made good by the next one.
* Neither carries plans: those have the user's functions, and come with the Spark task.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from millrace.spark.stream_threads.frames import MessageError
from millrace.spark.stream_threads.problems import Problem
from millrace.topology.topic_partition import TopicPartition

Offsets = tuple[tuple[str, int, int], ...]
"""Topic, partition, offset of each; JSON has no keys that are pairs."""

_STRICT = ConfigDict(extra="forbid")

M = TypeVar("M")


class HeldState(StrEnum):
    """The state of a task in a process, or on the disk of its host."""

    OPEN = "open"
    DISK = "disk"
    STANDBY = "standby"


class TaskState(StrEnum):
    """The state of a task on a stream thread."""

    OPENING = "opening"
    RESTORING = "restoring"
    RUNNING = "running"
    PAUSED = "paused"
    """Everything that was processed is committed, and nothing more is processed until an ``Assign`` says so."""


@dataclass(frozen=True)
class HeldTask:
    """A task whose state a thread's process, or its host, has.

    Args:
        task: name of the task, for example ``1_3``.
        state: where the state is.
        position: sum of the changelog offsets that it stands for, to tell which of two copies is nearer to the end; 0
            where it is not known.
    """

    __pydantic_config__ = _STRICT

    task: str
    state: HeldState
    position: int = 0


@dataclass(frozen=True)
class Hello:
    """The first message of a stream thread.

    Args:
        application: the application id.
        run: identifies the driver's run that launched the Spark task.
        epoch: number of the epoch that the Spark task belongs to.
        slot: number of the Spark partition.
        attempt: which attempt of that Spark task it is, from 0.
        host: where it runs.
        pid: its process.
        process_start: when that began, see :class:`millrace.processes.ProcessIdentity`.
        cores: processors that it may use.
        state_dir: where it keeps stores; threads of one host that have the same share them.
        held: tasks of which its process or host has the state.
    """

    __pydantic_config__ = _STRICT

    application: str
    run: str
    epoch: int
    slot: int
    attempt: int
    host: str
    pid: int
    process_start: int
    cores: float
    state_dir: str = ""
    held: tuple[HeldTask, ...] = ()
    kind: Literal["hello"] = "hello"

    @property
    def thread(self) -> str:
        """The name of the thread: that of its process, which runs one thread at a time."""
        return f"{self.host}/{self.pid}/{self.process_start}"

    @property
    def disk(self) -> tuple[str, str]:
        """The disk on which the thread keeps stores."""
        return self.host, self.state_dir

    def is_earlier_attempt_of(self, other: Hello) -> bool:
        """Returns whether ``other`` is a later attempt of the same stream thread."""
        return (self.epoch, self.slot) == (other.epoch, other.slot) and self.attempt < other.attempt


@dataclass(frozen=True)
class TaskReport:
    """The report of a task's progress.

    Args:
        task: its name.
        state: what the thread does with it.
        positions: committed offset of each input partition; empty while it is opened.
        ends: end of each input partition as the reader knows it.
        records: input records processed since the thread began.
        commits: commits since the thread began.
        committed_at: last commit that moved an offset, seconds since the epoch.
        busy_s: time spent on the task since the thread began, seconds.
        next_punctuation_ms: when a punctuation is due by the wall clock, milliseconds since the epoch.
        restore_remaining: changelog records to apply until its stores are there.
        restore_rate: changelog records per second.
        statistics: since the last report, encoded by :meth:`millrace.metrics.TaskStatistics.to_bytes`, as text.
    """

    __pydantic_config__ = _STRICT

    task: str
    state: TaskState
    positions: Offsets = ()
    ends: Offsets = ()
    records: int = 0
    commits: int = 0
    committed_at: float | None = None
    busy_s: float = 0.0
    next_punctuation_ms: int | None = None
    restore_remaining: int = 0
    restore_rate: float = 0.0
    statistics: tuple[str, ...] = ()


@dataclass(frozen=True)
class StandbyReport:
    """The report of a standby copy's progress.

    Args:
        task: name of the task.
        position: sum of the changelog offsets that it stands for; 0 before it is open.
        lag: offsets that it lacks, over all changelogs; ``None`` where that is not known yet.
        problem: why it does not follow.
    """

    __pydantic_config__ = _STRICT

    task: str
    position: int = 0
    lag: int | None = None
    problem: str = ""


@dataclass(frozen=True)
class ThreadTiming:
    """The time that a stream thread has spent since it began, by activity.

    Args:
        poll_s: reading, seconds.
        process_s: processing, seconds.
        commit_s: in commits during which nothing else could be done, seconds.
        idle_s: with nothing to do, seconds.
        commits: how many commits of tasks there were.
        commit_latency_s: from the begin to the end of each of them, added up, seconds.
        longest_commit_s: longest of them since the last report, seconds.
    """

    __pydantic_config__ = _STRICT

    poll_s: float = 0.0
    process_s: float = 0.0
    commit_s: float = 0.0
    idle_s: float = 0.0
    commits: int = 0
    commit_latency_s: float = 0.0
    longest_commit_s: float = 0.0


@dataclass(frozen=True)
class Report:
    """The report of a thread: each second, and at once when a task was opened, released or paused.

    Args:
        sequence: number of the report in its connection; an older one than the last is ignored.
        generation: of the last ``Assign`` that the thread has taken into account.
        tasks: every task that the thread has not released; those of ``generation`` that are missing were released.
        standbys: the standby copies that it keeps.
        timing: what it spends its time on.
    """

    __pydantic_config__ = _STRICT

    sequence: int
    generation: int
    tasks: tuple[TaskReport, ...] = ()
    standbys: tuple[StandbyReport, ...] = ()
    timing: ThreadTiming = field(default_factory=ThreadTiming)
    kind: Literal["report"] = "report"


@dataclass(frozen=True)
class Answer:
    """The answer to an ``Act`` or a ``CommitNow``, once for each command.

    Args:
        command: number of the command.
        answers: what the action returned for each task, as JSON has it.
        missing: tasks that the thread does not have.
        problem: why it failed; then there is no answer of any task.
    """

    __pydantic_config__ = _STRICT

    command: int
    answers: Mapping[str, Any] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    problem: Problem | None = None
    kind: Literal["answer"] = "answer"


@dataclass(frozen=True)
class Failed:
    """A task that failed: it is closed, and the thread has released it.

    Args:
        task: its name.
        generation: of the last ``Assign`` that the thread has taken into account.
        problem: why.
    """

    __pydantic_config__ = _STRICT

    task: str
    generation: int
    problem: Problem
    kind: Literal["failed"] = "failed"


@dataclass(frozen=True)
class Goodbye:
    """The last message of a thread that leaves in order: every task is committed and released, some perhaps still open.

    Args:
        reason: why it leaves.
    """

    __pydantic_config__ = _STRICT

    reason: str
    kind: Literal["goodbye"] = "goodbye"


@dataclass(frozen=True)
class Alive:
    """A sign of life, sent each second, whatever the loop does.

    Args:
        seen: number of the last message that came from the other side.
    """

    __pydantic_config__ = _STRICT

    seen: int
    kind: Literal["alive"] = "alive"


@dataclass(frozen=True)
class Welcome:
    """The driver's first message, after it has accepted the thread.

    Args:
        lease_s: how long the thread may process after the last of its messages that the driver has seen, seconds.
    """

    __pydantic_config__ = _STRICT

    lease_s: float
    kind: Literal["welcome"] = "welcome"


@dataclass(frozen=True)
class Assignment:
    """A task that is assigned to a thread.

    Args:
        task: its name.
        plan: digest of the plan of its sub-topology (:func:`plan_digest`), which the thread got from Spark.
        paused: whether it pauses after its next commit.
        is_stale: whether another process, or a fence of the driver, has had the task since this process had it: what it
            holds open is out of date, and must be closed before the task is opened.
    """

    __pydantic_config__ = _STRICT

    task: str
    plan: str
    paused: bool = False
    is_stale: bool = False


@dataclass(frozen=True)
class Assign:
    """The assignment of all tasks that a thread has from now on.

    Args:
        generation: grows with each ``Assign`` of a driver.
        tasks: the tasks.
        standbys: tasks of which it keeps a standby copy.
    """

    __pydantic_config__ = _STRICT

    generation: int
    tasks: tuple[Assignment, ...] = ()
    standbys: tuple[Assignment, ...] = ()
    kind: Literal["assign"] = "assign"


@dataclass(frozen=True)
class Act:
    """The command to execute an action on tasks between two of their commits.

    Args:
        command: number of the command, which its ``Answer`` has.
        action: name of the action (:mod:`millrace.task.actions`).
        arguments: its arguments, as JSON has them.
        tasks: with which tasks.
    """

    __pydantic_config__ = _STRICT

    command: int
    action: str
    arguments: Mapping[str, Any]
    tasks: tuple[str, ...]
    kind: Literal["act"] = "act"


@dataclass(frozen=True)
class CommitNow:
    """The command to commit what tasks have processed, without waiting for the commit interval.

    Args:
        command: number of the command, which its ``Answer`` has once all are committed.
        tasks: which tasks.
    """

    __pydantic_config__ = _STRICT

    command: int
    tasks: tuple[str, ...]
    kind: Literal["commit-now"] = "commit-now"


@dataclass(frozen=True)
class End:
    """The command to commit all tasks, say ``Goodbye`` and leave.

    Args:
        reason: why.
    """

    __pydantic_config__ = _STRICT

    reason: str
    kind: Literal["end"] = "end"


FromThread = Hello | Report | Answer | Failed | Goodbye | Alive
FromDriver = Welcome | Assign | Act | CommitNow | End | Alive

_FROM_THREAD: TypeAdapter[FromThread] = TypeAdapter(Annotated[FromThread, Field(discriminator="kind")])
_FROM_DRIVER: TypeAdapter[FromDriver] = TypeAdapter(Annotated[FromDriver, Field(discriminator="kind")])


def from_thread_to_bytes(message: FromThread) -> bytes:
    """Encodes a message of a thread."""
    return _FROM_THREAD.dump_json(message)


def from_driver_to_bytes(message: FromDriver) -> bytes:
    """Encodes a message of the driver."""
    return _FROM_DRIVER.dump_json(message)


def from_thread(data: bytes) -> FromThread:
    """Decodes a message of a thread.

    Raises:
        MessageError: it is no such message.
    """
    return _validated(_FROM_THREAD, data)


def from_driver(data: bytes) -> FromDriver:
    """Decodes a message of the driver.

    Raises:
        MessageError: it is no such message.
    """
    return _validated(_FROM_DRIVER, data)


def plan_digest(plan: bytes) -> str:
    """Returns the digest of an encoded plan, which names it in messages; both sides have the plan itself from Spark."""
    return hashlib.sha256(plan).hexdigest()[:32]


def offsets_of(positions: Mapping[TopicPartition, int]) -> Offsets:
    """Converts offsets by topic-partition to their form in messages."""
    return tuple((topic, partition, offset) for (topic, partition), offset in sorted(positions.items()))


def positions_of(offsets: Offsets) -> dict[TopicPartition, int]:
    """Converts offsets of a message to offsets by topic-partition."""
    return {(topic, partition): offset for topic, partition, offset in offsets}


def _validated(adapter: TypeAdapter[M], data: bytes) -> M:
    try:
        return adapter.validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise MessageError(
            f"A message of {len(data)} bytes is malformed: {where or 'JSON'}: {first['msg']}.",
            remedy="check that the driver and its workers run the same version of the application",
        ) from error
