"""The actions that a driver has every task execute between two batches, sent as a name and JSON arguments.

An action crosses to the process that holds the task. What Spark carries may be any picklable callable; a stream thread
takes names only, since no process takes code from a network connection.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from millrace.errors import OperationError
from millrace.task.task import Task, TaskAction

_Kind = TypeVar("_Kind", bound=type)

_KINDS: dict[str, TypeAdapter[Any]] = {}
_NAMES: dict[type, str] = {}

_STRICT = ConfigDict(extra="forbid")


def task_action(name: str) -> Callable[[_Kind], _Kind]:
    """Registers a frozen dataclass, which is called with a task, as the action ``name``.

    Its fields and its result must be JSON values or paths. It must not write to stores.
    """

    def register(kind: _Kind) -> _Kind:
        if name in _KINDS:
            raise ValueError(f"there are two actions {name!r}")
        _KINDS[name] = TypeAdapter(kind)
        _NAMES[kind] = name
        return kind

    return register


def action_names() -> tuple[str, ...]:
    """Returns the names of all actions."""
    return tuple(sorted(_KINDS))


def to_named(action: TaskAction) -> tuple[str, dict[str, Any]]:
    """Returns the name and the arguments of an action.

    Raises:
        OperationError: it is not registered.
    """
    name = _NAMES.get(type(action))
    if name is None:
        raise OperationError(
            f"{type(action).__name__} is no named action, so no stream thread can be asked for it.",
            remedy="register its class with millrace.task.actions.task_action",
        )
    return name, _KINDS[name].dump_python(action, mode="json")


def from_named(name: str, arguments: Mapping[str, Any]) -> TaskAction:
    """Returns the action with a name and arguments.

    Raises:
        OperationError: there is none of that name, or it takes other arguments.
    """
    adapter = _KINDS.get(name)
    if adapter is None:
        raise OperationError(
            f"There is no action {name!r}.",
            remedy=f"there are {', '.join(action_names())}; install one version everywhere",
        )
    try:
        action: TaskAction = adapter.validate_python(dict(arguments))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise OperationError(
            f"Action {name} does not take its arguments: {'.'.join(map(str, first['loc']))}: {first['msg']}.",
            remedy="install one version everywhere",
        ) from error
    return action


@task_action("link-database")
@dataclass(frozen=True)
class LinkDatabase:
    """The action that copies a task's database, in hard links.

    Args:
        directory: where the copies go, on the file system of the state directory.
    """

    __pydantic_config__ = _STRICT

    directory: Path

    def __call__(self, task: Task) -> Mapping[str, Any]:
        """Makes the copy in ``<directory>/<task>``."""
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / task.spec.name
        linked = bool(task.spec.sub_topology.stores) and task.state.link_database(path)
        return {"host": socket.gethostname(), "directory": str(path) if linked else None}


@task_action("compact-database")
@dataclass(frozen=True)
class CompactDatabase:
    """The action that begins to compact a task's database in the background, or reports its progress.

    Args:
        budget_s: for how long parts are begun, seconds; ``None`` only reports.
    """

    __pydantic_config__ = _STRICT

    budget_s: float | None = None

    def __call__(self, task: Task) -> Mapping[str, Any] | None:
        """Returns the progress; ``None`` where no compaction was begun since the task's stores were opened."""
        if not task.spec.sub_topology.stores:
            return None
        if self.budget_s is not None:
            task.state.begin_compaction(budget_s=self.budget_s)
        progress = task.state.compaction
        return None if progress is None else asdict(progress)


@task_action("checkpoint-stores")
@dataclass(frozen=True)
class CheckpointTask:
    """The action that makes a checkpoint of a task's stores, in hard links.

    Args:
        directory: where the checkpoints of all tasks go.
    """

    __pydantic_config__ = _STRICT

    directory: Path

    def __call__(self, task: Task) -> list[list[Any]]:
        """Returns the offsets that the checkpoint corresponds to: topic, partition and offset of each."""
        target = self.directory / task.spec.name
        # An attempt before this one may have come this far.
        shutil.rmtree(target, ignore_errors=True)
        task.state.checkpoint(target)
        return [[topic, partition, offset] for (topic, partition), offset in task.committed.items()]
