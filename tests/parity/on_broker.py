"""Runs a scenario through real tasks: topics of a broker, transactions, changelogs, and restarts in between."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from millrace.config import StreamsConfig
from millrace.control.preparation import Preparer
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import End, end_offsets
from millrace.kafka.topics import TopicSpec
from millrace.spark.plan import QueryPlan
from millrace.task.gap_reader import read_gap
from millrace.task.input import OffsetRange, TopicPartition
from millrace.task.task import Task
from tests.parity.scenario import REWRITES, SETTINGS, WALL_CLOCK, Scenario
from tests.parity.scenario_topology import ScenarioTopology, is_order_defined
from tests.records import ReadRecord, Record, produce, read_topic

_SEGMENTS = 5
_CUT_PERCENT, _RESTART_PERCENT, _LOSS_PERCENT = 40, 35, 40


def for_broker(scenario: Scenario, random: Random) -> Scenario | None:
    """The scenario with its input in an order that a cluster keeps; ``None`` if it cannot be run there.

    A task takes the topics of one batch in the order of their timestamps, so the input is cut into segments, each of
    which has the records of one topic after those of another; they are sent topic by topic.
    """
    ops = {step["op"] for step in scenario["topology"]}
    by_wall_clock = "null results at most once a second" in scenario["settings"]
    if (
        by_wall_clock
        or ops & {"global_table", "suppress"}
        or not is_order_defined(ScenarioTopology(scenario, in_columns=False).build())
    ):
        return None
    rows = [
        [topic, key, value, timestamp or 1, *headers]
        for topic, key, value, timestamp, *headers in scenario["input"]
        if topic != WALL_CLOCK
    ]
    cuts = sorted(random.randrange(len(rows) + 1) for _ in range(_SEGMENTS - 1))
    segments = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    ordered = [row for segment in segments for row in sorted(segment, key=lambda row: str(row[0]))]
    return {**scenario, "input": ordered, "settings": [s for s in scenario["settings"] if s != "dead letters"]}


class ScenarioOnBroker:
    """One scenario as an application of its own.

    Args:
        scenario: made by :func:`for_broker`.
        bootstrap_servers: the broker.
        name: the application's, and the prefix of its topics.
        directory: where its state goes.
        random: decides where batches end and tasks restart.
        in_columns: whether what has a columnar form takes it.
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
    ) -> None:
        self._scenario = _with_prefix(scenario, name)
        self._bootstrap_servers = bootstrap_servers
        self._name = name
        self._random = random
        self._admin = KafkaAdmin(bootstrap_servers)
        settings: dict[str, Any] = {}
        for sentence in scenario["settings"]:
            settings |= SETTINGS[sentence]
        self._config = StreamsConfig.from_mapping(
            {
                "application.id": name,
                "bootstrap.servers": bootstrap_servers,
                "state.dir": str(directory),
                "replication.factor": 1,
                "statestore.cache.enabled": False,
                **settings,
            }
        )
        self._topology = ScenarioTopology(self._scenario, in_columns=in_columns).build(
            tuple(REWRITES[sentence] for sentence in scenario["settings"] if sentence in REWRITES)
        )
        self.topics = sorted({*self._topology.external_inputs, *self._topology.external_outputs})
        self.restarts = 0

    def run(self) -> dict[str, list[ReadRecord]]:
        """Feeds the input and gives what was committed to each output topic."""
        self._admin.create_missing([TopicSpec(name=name, partitions=1, settings=_KEPT) for name in self.topics])
        prepared = Preparer(self._config, self._topology, progress_address="").prepare(None, run_id=1)
        tasks = [
            _RunningTask(self, plan, {place: prepared.starts[place].offset for place in plan.inputs_of(0)})
            for plan in prepared.plans
        ]
        try:
            for topic, rows in self._chunks():
                produce(self._bootstrap_servers, topic, rows)
                while any(task.step() for task in tasks):
                    pass
        finally:
            for task in tasks:
                task.task.close()
        return {
            step["topic"].removeprefix(f"{self._name}-"): read_topic(self._bootstrap_servers, step["topic"])
            for step in self._scenario["topology"]
            if step["op"] == "to"
        }

    def delete_topics(self) -> None:
        """Deletes all topics of the application."""
        internal = {f"{self._name}-{spec.name}" for spec in self._topology.repartition_topics}
        for part in self._topology.sub_topologies:
            internal |= {name for store in part.stores if (name := store.changelog_topic(self._name)) is not None}
        self._admin.delete_topics({*internal, *self.topics})

    def _chunks(self) -> Iterator[tuple[str, list[Record]]]:
        chunk: list[Record] = []
        last = ""
        for topic, key, value, timestamp, *rest in self._scenario["input"]:
            if topic != last and chunk:
                yield last, chunk
                chunk = []
            headers: Mapping[str, str] = rest[0] if rest else {}
            pairs: list[tuple[str, bytes | None]] = [(name, text.encode()) for name, text in headers.items()]
            chunk.append(Record(key and key.encode(), value and value.encode(), timestamp, 0, pairs))
            last = topic
        if chunk:
            yield last, chunk

    def ends(self, places: list[TopicPartition], end: End = End.LAST_STABLE) -> dict[TopicPartition, int]:
        """End offsets, the last stable ones by default."""
        return end_offsets(self._admin, places, end)

    def happens(self, percent: int) -> bool:
        """``True`` in ``percent`` of a hundred cases."""
        return self._random.randrange(100) < percent

    def between(self, low: int, high: int) -> int:
        """A number, both ends included."""
        return self._random.randint(low, high)

    @property
    def config(self) -> StreamsConfig:
        """The application's configuration."""
        return self._config


class _RunningTask:
    """The task of a sub-topology, opened again and again, sometimes without the state that it had."""

    def __init__(self, run: ScenarioOnBroker, plan: QueryPlan, committed: dict[TopicPartition, int]) -> None:
        self._run = run
        self._plan = plan
        self._committed = committed
        self.task = Task(plan.task_spec(0))

    def step(self) -> bool:
        """Runs a batch if there is input; whether there was, or is about to be."""
        ends = self._run.ends(list(self._committed))
        if all(ends[place] <= offset for place, offset in self._committed.items()):
            # A commit is known before its marker is in the log; what it sent comes behind that.
            written = self._run.ends(list(self._committed), End.HIGH_WATERMARK)
            return any(written[place] > offset for place, offset in self._committed.items())
        if self._run.happens(_RESTART_PERCENT):
            self._restart()
        ranges, rows = {}, []
        for place, start in self._committed.items():
            end = ends[place]
            if end > start + 1 and self._run.happens(_CUT_PERCENT):
                end = self._run.between(start + 1, end - 1)
            ranges[place] = OffsetRange(start, end, ends[place])
            if end > start:
                rows.append(read_gap(self._run.config, self._plan.topics, place, start=start, end=end)[0])
        self._committed = dict(self.task.run_batch(rows, ranges).positions)
        return True

    def _restart(self) -> None:
        self.task.close()
        self._run.restarts += 1
        if self._run.happens(_LOSS_PERCENT):
            shutil.rmtree(self._plan.task_spec(0).state_directory, ignore_errors=True)
        self.task = Task(self._plan.task_spec(0))


_KEPT = {"retention.ms": "-1"}


def _with_prefix(scenario: Scenario, prefix: str) -> Scenario:
    steps = []
    for step in scenario["topology"]:
        named = dict(step)
        if "topic" in step:
            named["topic"] = f"{prefix}-{step['topic']}"
        if "topics" in step:
            named["topics"] = [f"{prefix}-{topic}" for topic in step["topics"]]
        steps.append(named)
    return {**scenario, "topology": steps, "input": [[f"{prefix}-{row[0]}", *row[1:]] for row in scenario["input"]]}
