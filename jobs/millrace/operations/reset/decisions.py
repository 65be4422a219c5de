"""The decisions of a reset, as its journal keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from millrace.install.named_cluster import NamedCluster
from millrace.install.which_spec import Use
from millrace.operations.reset.targets import Move
from millrace.topology.topic_partition import TopicPartition


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True)


class PartitionMove(_Model):
    """The move of an input partition: see :class:`millrace.operations.reset.targets.Move`."""

    topic: str
    partition: int
    before: int | None
    asked: int
    after: int
    partition_time: int
    is_kept: bool
    """It was not to be reset: it stays where it is, and is signed again with the others of its task."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition."""
        return self.topic, self.partition

    def __str__(self) -> str:
        return str(Move(before=self.before, asked=self.asked, after=self.after))


class TaskReset(_Model):
    """The offsets that are committed for one task.

    ``changelogs`` are the ends of the changelogs that are kept, ``stream_times`` the times of their stores.
    """

    name: str
    moves: tuple[PartitionMove, ...]
    changelogs: Mapping[str, int]
    stream_times: Mapping[str, int]


class Emptying(_Model):
    """The records of a partition that are deleted: all before ``end``."""

    topic: str
    partition: int
    end: int


class ResetDecisions(_Model):
    """The decisions of a reset.

    ``cluster`` is given only where the application has no specification here: otherwise the connection is
    read from that for ``use`` when it is needed. ``run`` is the number under which the offsets are signed.
    """

    application_id: str
    cluster: NamedCluster | None
    state_dir: str
    run: int
    transactional_ids: tuple[str, ...]
    tasks: tuple[TaskReset, ...]
    deletes: tuple[str, ...]
    keeps: tuple[str, ...]
    empties: tuple[Emptying, ...]
    savepoints: tuple[str, ...]
    stale_inputs: tuple[str, ...]
    use: Use = Use.RUNNING
    force: bool
    forgets_topology: bool = False
    """As journals have it; in options it is :attr:`~millrace.operations.reset.ResetOptions.discards_topology`."""

    @property
    def moves(self) -> tuple[PartitionMove, ...]:
        """The moves of all tasks, sorted."""
        return tuple(
            sorted((move for task in self.tasks for move in task.moves), key=lambda move: move.topic_partition)
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the decisions for :class:`millrace.operations.OperationPlan`."""
        return self.model_dump(mode="json")
