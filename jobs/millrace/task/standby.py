"""The inputs of a standby copy of a task: its changelogs, and the runs and commits of its application."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from millrace.config import StreamsConfig
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import CommittedOffset, committed_offsets
from millrace.state import StateOptions
from millrace.state.standby_copy import CopiedTask, Runs, StandbyCopy, copied_stores
from millrace.task.signature import Signature
from millrace.task.spec import TaskSpec
from millrace.topology.topic_partition import TopicPartition

_RUNS_S = 2.0


def copied_task(spec: TaskSpec) -> CopiedTask | None:
    """Returns the description of a task's copy; ``None`` where no store on disk has a changelog.

    Args:
        spec: the task, with the state directory of the host that keeps the copy.
    """
    stores = spec.sub_topology.stores
    changelogs = copied_stores(stores, spec.config.application_id)
    if not changelogs:
        return None
    retentions = [
        spec.part.tombstone_retention_ms[store] for store in changelogs if store in spec.part.tombstone_retention_ms
    ]
    return CopiedTask(
        name=spec.name,
        partition=spec.partition,
        directory=spec.state_directory,
        stores=stores,
        changelogs=changelogs,
        source_topics=frozenset(store.source_topic for store in stores if store.source_topic),
        tombstone_retention_ms=min(retentions, default=None),
        inputs=spec.inputs,
    )


def runs_of(commits: Mapping[TopicPartition, CommittedOffset]) -> Runs:
    """Returns the runs that commits of an application's group show; commits of other applications show none."""
    signatures = [
        signature
        for topic_partition, commit in commits.items()
        if (signature := Signature.of({topic_partition: commit}))
    ]
    return Runs(
        newest=max((each.run for each in signatures), default=0),
        reset=max((each.reset for each in signatures), default=0),
    )


class CopyOpener:
    """The opener of an application's standby copies. Any thread may call it.

    Args:
        config: the application's configuration.
    """

    def __init__(self, config: StreamsConfig) -> None:
        self._config = config
        self._admin = KafkaAdmin(config.bootstrap_servers, settings=config.client_settings("admin."))
        self._guard = threading.Lock()
        self._runs: dict[str, tuple[float, Runs]] = {}

    def open(self, task: CopiedTask) -> StandbyCopy:
        """Opens the copy of a task.

        Raises:
            StateDirectoryLockedError: a task, or another standby, has the directory.
            MillraceError: see :class:`millrace.state.standby_copy.StandbyCopy`.
        """
        return StandbyCopy(
            task,
            self._config.bootstrap_servers,
            self._committed,
            lambda: self._runs_of(task),
            settings=self._config.client_settings("consumer."),
            options=StateOptions.from_config(self._config),
        )

    def _committed(self, topic_partition: TopicPartition) -> int | None:
        found = committed_offsets(self._admin, self._config.application_id, [topic_partition], stable=False).get(
            topic_partition
        )
        return None if found is None else found.offset

    def _runs_of(self, task: CopiedTask) -> Runs:
        """Returns the application's runs, from its commits of a task; the answer may be two seconds old."""
        with self._guard:
            asked_at, runs = self._runs.get(task.name, (float("-inf"), Runs()))
            if time.monotonic() - asked_at <= _RUNS_S:
                return runs
        commits = committed_offsets(self._admin, self._config.application_id, set(task.inputs), stable=False)
        runs = runs_of(commits)
        with self._guard:
            self._runs[task.name] = (time.monotonic(), runs)
        return runs
