"""Applications to reset: topologies over a test's own topics, and what a run of one would have left on the broker."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from millrace.config import StreamsConfig
from millrace.driver.lifecycle import ApplicationState
from millrace.driver.matched_topics import with_topics_to_read
from millrace.driver.preparation import Preparer
from millrace.driver.status import ApplicationStatus, DriverIdentity
from millrace.driver.status_topic import StatusPublisher
from millrace.dsl import Consumed, Grouped, Materialized, StreamsBuilder, TableJoined
from millrace.dsl.loading import load_topology
from millrace.home import HOME_VARIABLE
from millrace.install.home import SPECS_VARIABLE, Home
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import committed_offsets
from millrace.kafka.producer import TaskProducer
from millrace.kafka.topics import TopicSpec
from millrace.serdes import StringSerde
from millrace.state import StateDirectory, TaskState
from millrace.task.signature import Signature
from millrace.topology.summary import summarize
from millrace.topology.topic_partition import TopicPartition
from tests import prepared
from tests.application import PREFIX_VARIABLE, topic

TEXT = Consumed.with_(StringSerde(), StringSerde())


def counting(builder: StreamsBuilder) -> None:
    """Counts by key, and by value behind a repartition topic; copies to an output."""
    stream = builder.stream(topic("in"), TEXT)
    stream.group_by_key().count(materialized=Materialized.as_("counts"))
    stream.group_by(
        lambda key, value: value,
        Grouped.as_("by-user").with_key_serde(StringSerde()).with_value_serde(StringSerde()),
    ).count(materialized=Materialized.as_("users"))
    stream.to(topic("out"))


def copying(builder: StreamsBuilder) -> None:
    """Copies a topic: no stores, no internal topics."""
    builder.stream(topic("in"), TEXT).to(topic("out"))


def matching(builder: StreamsBuilder) -> None:
    """Copies what matches a pattern."""
    builder.stream(re.compile(re.escape(topic("in")) + "-[a-z]+"), TEXT).to(topic("out"))


def framed(builder: StreamsBuilder) -> None:
    """Copies what a DataFrame function gives."""
    builder.stream(topic("in"), TEXT).transform_frame(lambda frame: frame).to(topic("out"))


def auditing(builder: StreamsBuilder) -> None:
    """Reads the changelog of another application."""
    builder.stream(f"{topic('app')}-counts-changelog", TEXT).to(topic("out"))


def joining(builder: StreamsBuilder) -> None:
    """Joins two tables by a foreign key; one of the inputs is called as a changelog of the application would be."""
    orders = builder.table(f"{topic('fkapp')}-orders-changelog", TEXT)
    users = builder.table(topic("users"), TEXT)
    strings = Materialized.with_(StringSerde(), StringSerde())
    orders.join(
        users,
        lambda order, user: f"{order}:{user}",
        strings,
        foreign_key_extractor=lambda order: order,
        table_joined=TableJoined.as_("join1"),
    ).to_stream().to(topic("out"))


class Left:
    """An application that has run and ended: topics, commits, a status record and a store, without Spark.

    Args:
        home: where its specification goes.
        application_id: its name.
        function: its topology, of this module.
        config: settings over the defaults.
    """

    def __init__(self, home: Home, application_id: str, function: str, config: Mapping[str, Any]) -> None:
        self.home = home
        self.application_id = application_id
        self.module = f"tests.integration.operations.resetting:{function}"
        settings = {"state.dir": str(home.root / "state"), **config}
        self.config = StreamsConfig.from_mapping({"application.id": application_id, **settings})
        home.specs.mkdir(parents=True, exist_ok=True)
        document = {"name": application_id, "module": self.module, "config": settings}
        home.spec_path(application_id).write_text(yaml.safe_dump(document))
        self.topology = load_topology(self.module, self.config)

    @property
    def state(self) -> StateDirectory:
        """Where its stores are."""
        return StateDirectory(self.config.state_dir)

    @property
    def status(self) -> ApplicationStatus:
        """Its record in the status topic."""
        with self._publisher() as publisher:
            last = publisher.peek()
        assert last is not None
        return last

    def run(
        self, offsets: Mapping[TopicPartition, int] | None = None, *, state: ApplicationState | None = None
    ) -> None:
        """Prepares as a driver does, commits offsets as tasks do, publishes a status and leaves a store.

        Args:
            offsets: committed with the signature of the run.
            state: of the status, by default that of an application which was stopped.
        """
        with self._publisher() as publisher:
            last = publisher.open()
            preparer = Preparer(self.config, with_topics_to_read(self.topology, self.config))
            preparation = preparer.prepare(last, run_id=publisher.epoch)
            plans = preparation.plans
            starts = {topic_partition: start.offset for topic_partition, start in preparation.starts.items()}
            self.commit({**starts, **(offsets or {})}, run=plans[0].run_id)
            if any(plan.sub_topology.stores for plan in plans):
                spec = next(plan.task_spec(0) for plan in plans if plan.sub_topology.stores)
                TaskState.open(spec.state_directory, spec.sub_topology.stores).close()
            read = {name for plan in plans for name in plan.topic_ids}
            publisher.publish(
                ApplicationStatus(
                    application_id=self.application_id,
                    state=state or ApplicationState.NOT_RUNNING,
                    driver=DriverIdentity.of_this_process(),
                    driver_epoch=publisher.epoch,
                    run_id="a-run",
                    topology_fingerprint=self.topology.fingerprint,
                    topology_summary=summarize(self.topology),
                    transactional_ids=[
                        identity
                        for plan in plans
                        for partition in range(plan.tasks)
                        if (identity := plan.task_spec(partition).transactional_id) is not None
                    ],
                    offsets={},
                    topic_ids={name: preparation.topics[name].topic_id for name in read},
                    partitions={name: preparation.topics[name].partitions for name in read},
                )
            )

    def commit(self, offsets: Mapping[TopicPartition, int], *, run: int) -> None:
        """Commits offsets, signed."""
        texts = Signature(run=run).to_metadata(offsets)
        with TaskProducer(self.config.bootstrap_servers, transactional_id=f"{self.application_id}-0_0") as producer:
            producer.init()
            producer.begin()
            producer.commit(
                {topic_partition: (offset, texts[topic_partition]) for topic_partition, offset in offsets.items()},
                self.application_id,
            )

    def _publisher(self) -> StatusPublisher:
        return StatusPublisher(self.config.bootstrap_servers, self.application_id)


def committed(left: Left, admin: Any) -> dict[TopicPartition, int]:
    """What the group has committed."""
    found = committed_offsets(admin, left.application_id, None)
    return {topic_partition: commit.offset for topic_partition, commit in sorted(found.items())}


def create(admin: KafkaAdmin, *names: str, partitions: int = 1, **settings: str) -> None:
    """Creates topics; dots of setting names are written as underscores."""
    named = {key.replace("_", "."): value for key, value in settings.items()}
    admin.create_missing([TopicSpec(name=name, partitions=partitions, settings=named) for name in names])


def killed_at(point: str, home: Home, prefix: str, *arguments: str) -> None:
    """Runs ``millrace ...`` in a process that dies at a crash point."""
    variables = {HOME_VARIABLE: str(home.root), SPECS_VARIABLE: str(home.specs), PREFIX_VARIABLE: prefix}
    prepared.killed_at(point, prepared.millrace, *arguments, environment=variables, directory=home.root)


def killed_at_every_step(steps: Sequence[str], home: Home, prefix: str, application: str, *arguments: str) -> None:
    """Kills a reset at every step that it has, and resumes it in between; see :mod:`tests.prepared`."""
    variables = {HOME_VARIABLE: str(home.root), SPECS_VARIABLE: str(home.specs), PREFIX_VARIABLE: prefix}
    prepared.killed_at_every_step(
        "reset", steps, application, (prepared.millrace, *arguments), environment=variables, directory=home.root
    )


def topics_of(admin: Any, prefix: str) -> set[str]:
    """The names of all topics that begin so."""
    return {name for name in admin.client.list_topics(timeout=10).topics if name.startswith(prefix)}


def home_in(directory: Path) -> Home:
    """An installation of its own."""
    return Home(root=directory / "home", specs=directory / "apps")
