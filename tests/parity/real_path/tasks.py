"""Runs a scenario through real tasks: topics of a broker, transactions, changelogs; restarts and kills in between."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Any

from millrace.config import StreamsConfig
from millrace.driver.preparation import Preparer
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import End, end_offsets
from millrace.kafka.topics import TopicSpec
from millrace.spark.plan import QueryPlan
from millrace.task.crash_points import CrashPoint
from millrace.task.input import OffsetRange
from millrace.topology.topic_partition import TopicPartition
from tests.parity.real_path.preparing import chunks, rewrites_of, topics_of, with_prefix
from tests.parity.real_path.task_process import KilledError, TaskProcess
from tests.parity.scenario import SETTINGS, Scenario
from tests.parity.scenario_topology import ScenarioTopology
from tests.records import ReadRecord, produce, read_topic

_CUT_PERCENT, _RESTART_PERCENT, _LOSS_PERCENT, _KILL_PERCENT, _AGAIN_PERCENT = 40, 25, 40, 20, 50
_POINTS = [point for point in CrashPoint if not point.startswith(("driver-", "thread-"))]
KEPT = {"retention.ms": "-1"}
"""Settings of topics whose records are of 1970."""


class ScenarioOnBroker:
    """One scenario as an application of its own.

    Args:
        scenario: made by :func:`for_broker`.
        bootstrap_servers: the broker.
        name: the application's, and the prefix of its topics.
        directory: where its state goes.
        random: decides where batches end, and when tasks restart or die.
        in_columns: whether what has a columnar form takes it.
        most_kills: how often the process of the tasks may die.

    Attributes:
        restarts: how often a task was closed and opened again.
        kills: where the process of the tasks died.
    """

    def __init__(
        self,
        scenario: Scenario,
        bootstrap_servers: str,
        name: str,
        directory: Path,
        random: Random,
        *,
        in_columns: bool,
        most_kills: int = 0,
    ) -> None:
        self._scenario = with_prefix(scenario, f"{name}-")
        self._bootstrap_servers = bootstrap_servers
        self._name = name
        self._random = random
        self._most_kills = most_kills
        self._admin = KafkaAdmin(bootstrap_servers)
        self._crash_points = directory / f"{name}-crash-points"
        self._crash_points.mkdir()
        settings: dict[str, Any] = {}
        for sentence in scenario["settings"]:
            settings |= SETTINGS[sentence]
        self._config = StreamsConfig.from_mapping(
            {
                "application.id": name,
                "bootstrap.servers": bootstrap_servers,
                "state.dir": str(directory),
                "replication.factor": 1,
                **settings,
            }
        )
        self._topology = ScenarioTopology(self._scenario, in_columns=in_columns).build(rewrites_of(scenario))
        self.topics = sorted({*self._topology.external_inputs, *self._topology.external_outputs})
        self.restarts = 0
        self.kills: list[CrashPoint] = []

    def run(self) -> dict[str, list[ReadRecord]]:
        """Feeds the input and gives what was committed to each output topic."""
        self._admin.create_missing([TopicSpec(name=name, partitions=1, settings=KEPT) for name in self.topics])
        prepared = Preparer(self._config, self._topology).prepare(None, run_id=1)
        process = TaskProcess(list(prepared.plans), self._crash_points)
        tasks = [
            _RunningTask(
                self,
                number,
                plan,
                {topic_partition: prepared.starts[topic_partition].offset for topic_partition in plan.inputs_of(0)},
            )
            for number, plan in enumerate(prepared.plans)
        ]
        try:
            for topic, records in chunks(self._scenario):
                produce(self._bootstrap_servers, topic, records)
                moved = True
                while moved:
                    moved = False
                    for task in tasks:
                        try:
                            moved |= task.step(process)
                        except KilledError:
                            process.kill()
                            for each in tasks:
                                each.lose_state_perhaps()
                            process = TaskProcess(list(prepared.plans), self._crash_points)
                            moved = True
        finally:
            process.kill()
        return {
            step["topic"].removeprefix(f"{self._name}-"): read_topic(self._bootstrap_servers, step["topic"])
            for step in self._scenario["topology"]
            if step["op"] == "to"
        }

    def delete_topics(self) -> None:
        """Deletes all topics of the application."""
        self._admin.delete_topics(topics_of(self._topology, self._name))

    def ends(self, topic_partitions: list[TopicPartition], end: End = End.LAST_STABLE) -> dict[TopicPartition, int]:
        """End offsets, the last stable ones by default."""
        return end_offsets(self._admin, topic_partitions, end)

    def happens(self, percent: int) -> bool:
        """``True`` in ``percent`` of a hundred cases."""
        return self._random.randrange(100) < percent

    def between(self, low: int, high: int) -> int:
        """A number, both ends included."""
        return self._random.randint(low, high)

    def arm(self) -> CrashPoint | None:
        """Sometimes, and not too often, arms a crash point for the next batch; which."""
        if len(self.kills) >= self._most_kills or not self.happens(_KILL_PERCENT):
            return None
        point = _POINTS[self.between(0, len(_POINTS) - 1)]
        (self._crash_points / point).write_text("SIGKILL")
        return point

    def disarm(self, point: CrashPoint) -> None:
        """Takes a crash point back that no process has reached."""
        (self._crash_points / point).unlink()


class _RunningTask:
    """The task of a sub-topology, opened again and again, sometimes without the state that it had."""

    def __init__(
        self, run: ScenarioOnBroker, number: int, plan: QueryPlan, committed: dict[TopicPartition, int]
    ) -> None:
        self._run = run
        self._number = number
        self._plan = plan
        self._committed = committed
        self._again: dict[TopicPartition, OffsetRange] | None = None

    def step(self, process: TaskProcess) -> bool:
        """Runs a batch if there is input; whether there was, or is about to be.

        Raises:
            KilledError: the process died in the batch, which comes again, as it was or cut elsewhere.
        """
        ends = self._run.ends(list(self._committed))
        if self._again is None and all(
            ends[topic_partition] <= offset for topic_partition, offset in self._committed.items()
        ):
            # A commit is known before its marker is in the log; what it sent comes behind that.
            written = self._run.ends(list(self._committed), End.HIGH_WATERMARK)
            return any(written[topic_partition] > offset for topic_partition, offset in self._committed.items())
        if self._run.happens(_RESTART_PERCENT):
            process.close_task(self._number)
            self._run.restarts += 1
            self.lose_state_perhaps()
        ranges = self._again or {
            topic_partition: OffsetRange(start, self._end(start, ends[topic_partition]), ends[topic_partition])
            for topic_partition, start in self._committed.items()
        }
        self._again = None
        point = self._run.arm()
        if point is CrashPoint.TASK_OPENED:
            process.close_task(self._number)
        try:
            self._committed = dict(process.run_batch(self._number, ranges))
        except KilledError:
            assert point is not None, "the process of the tasks died by itself"
            self._run.kills.append(point)
            if self._run.happens(_AGAIN_PERCENT):
                self._again = ranges
            raise
        if point is not None:
            self._run.disarm(point)
        return True

    def lose_state_perhaps(self) -> None:
        """Sometimes removes the state of the task, which must not be open."""
        if self._run.happens(_LOSS_PERCENT):
            shutil.rmtree(self._plan.task_spec(0).state_directory, ignore_errors=True)

    def _end(self, start: int, end: int) -> int:
        if end > start + 1 and self._run.happens(_CUT_PERCENT):
            return self._run.between(start + 1, end - 1)
        return end
