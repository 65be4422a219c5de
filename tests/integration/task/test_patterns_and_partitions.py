"""A broker's topics by a pattern (KIP-105), several partitions for a record (KIP-837), and stores that their own topic
restores (KIP-813), by tasks without Spark."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from millrace.config import StreamsConfig
from millrace.driver.lifecycle import ApplicationState
from millrace.driver.matched_topics import with_topics_read, with_topics_to_read
from millrace.driver.preparation import Preparer
from millrace.driver.status import ApplicationStatus, DriverIdentity
from millrace.dsl import Consumed, Materialized, Processor, Produced, Stores, StreamsBuilder, Topology
from millrace.errors import TopologyError
from millrace.install.spec import ApplicationSpec
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import committed_offsets, end_offsets
from millrace.kafka.topics import TopicSpec
from millrace.launch.checks import Check
from millrace.launch.preflight import preflight
from millrace.serdes import LongSerde, StringSerde
from millrace.task.batch import TaskBatch
from millrace.task.input import OffsetRange
from millrace.task.task import Task
from millrace.topology import topology as frozen
from tests.records import Record, produce, read_topic

TEXT = StringSerde()
READ = Consumed.with_(TEXT, TEXT)


class Runs:
    """Runs of an application, each of which processes what there is, in one batch of each task."""

    def __init__(self, bootstrap_servers: str, name: str, directory: Path, topology: frozen.FrozenTopology) -> None:
        self.config = StreamsConfig.from_mapping(
            {"application.id": name, "bootstrap.servers": bootstrap_servers, "state.dir": str(directory)}
        )
        self.admin = KafkaAdmin(bootstrap_servers)
        self.directory = directory
        self._topology = topology
        self._last: ApplicationStatus | None = None
        self._number = 0

    def create(self, topic: str, partitions: int = 1) -> str:
        self.admin.create_missing([TopicSpec(name=topic, partitions=partitions)])
        return topic

    def run(self) -> Counter[str]:
        """Starts, processes, stops; returns what the tasks counted."""
        self._number += 1
        topology = with_topics_to_read(self._topology, self.config)
        prepared = Preparer(self.config, topology).prepare(self._last, run_id=self._number)
        counts: Counter[str] = Counter()
        for plan in prepared.plans:
            for partition in range(plan.tasks):
                topic_partitions = plan.inputs_of(partition)
                ends = end_offsets(self.admin, topic_partitions)
                committed = committed_offsets(self.admin, self.config.application_id, topic_partitions)
                # No rows came from Spark: the task reads them itself.
                ranges = {
                    topic_partition: OffsetRange(ends[topic_partition], ends[topic_partition], ends[topic_partition])
                    for topic_partition in topic_partitions
                }
                assert all(
                    committed[topic_partition].offset <= ends[topic_partition] for topic_partition in topic_partitions
                )
                task = Task(plan.task_spec(partition))
                counts.update(task.run_batch(TaskBatch([], ranges)).counts)
                task.close()
        inputs = {name for plan in prepared.plans for name in plan.topics}
        self._last = ApplicationStatus(
            application_id=self.config.application_id,
            state=ApplicationState.NOT_RUNNING,
            driver=DriverIdentity.of_this_process(),
            driver_epoch=self._number,
            topology_fingerprint=topology.fingerprint,
            topology_summary=topology.summary(),
            topic_ids={name: prepared.topics[name].topic_id for name in inputs},
            partitions={name: prepared.topics[name].partitions for name in inputs},
        )
        return counts

    def send(self, topic: str, *records: tuple[str, str], partition: int = 0) -> None:
        made = [Record(key.encode(), value.encode(), 5, partition=partition) for key, value in records]
        produce(self.config.bootstrap_servers, topic, made)

    def read(self, topic: str) -> list[Any]:
        return read_topic(self.config.bootstrap_servers, topic)


def test_a_topic_that_is_created_later_is_read_from_the_next_start_on(
    bootstrap_servers: str, unique: str, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    sensors = builder.stream(re.compile(re.escape(f"{unique}-sensor-") + "[a-z]+"), READ)
    counted = sensors.group_by_key().count(Materialized.as_("counts"))
    counted.to_stream().to(f"{unique}-out", Produced.with_(TEXT, LongSerde()))
    runs = Runs(bootstrap_servers, f"{unique}-app", tmp_path, builder.build())
    out = runs.create(f"{unique}-out")
    with pytest.raises(TopologyError, match="matches no topic of the broker"):
        runs.run()
    later, first = f"{unique}-sensor-a", runs.create(f"{unique}-sensor-b")
    runs.create(f"{unique}-sensor-9")
    runs.send(first, ("k", "1"), ("l", "2"))
    assert runs.run()["read"] == 2

    # One whose name sorts before the other, so that the task's signature moves to it.
    runs.create(later)
    runs.send(later, ("k", "3"), ("k", "4"))
    # What looks at the application meanwhile sees what it reads, not what it will read.
    assert with_topics_read(builder.build(), runs.config).external_inputs == {first}
    runs.send(first, ("l", "5"))
    assert runs.run()["read"] == 3
    assert with_topics_read(builder.build(), runs.config).external_inputs == {first, later}

    counts: dict[bytes, int] = {record.key: LongSerde().deserialize(record.value) for record in runs.read(out)}
    assert counts == {b"k": 3, b"l": 2}
    # Nothing is read twice, and the stores are restored from the one changelog.
    shutil.rmtree(tmp_path)
    runs.send(later, ("k", "6"))
    assert runs.run()["read"] == 1
    assert LongSerde().deserialize(runs.read(out)[-1].value) == 4


def sensors(builder: StreamsBuilder, config: StreamsConfig) -> None:
    """As a specification names it."""
    prefix = config.application_id.removesuffix("-app")
    builder.stream(re.compile(f"{prefix}-sensor-.*"), READ).to(f"{prefix}-out")


def test_the_preflight_looks_for_the_topics_that_match(bootstrap_servers: str, unique: str, tmp_path: Path) -> None:
    def checks(*declared: str) -> dict[str, Check]:
        spec = ApplicationSpec.model_validate({
            "name": f"{unique}-app",
            "module": f"{__name__}:sensors",
            "config": {"bootstrap.servers": bootstrap_servers, "state.dir": str(tmp_path)},
            "topics": [{"name": name, "partitions": 1} for name in declared],
            "preflight": {"least_free_disk_mb": 0},
        })  # fmt: skip
        return {check.name: check for check in preflight(spec).checks}

    missing = checks(f"{unique}-out")["topic patterns"]
    assert not missing.ok
    assert "matches no topic of the broker" in missing.text
    found = checks(f"{unique}-out", f"{unique}-sensor-1")
    assert found["topic patterns"].text == f"'{unique}-sensor-.*' matches {unique}-sensor-1"
    assert all(check.ok for check in found.values()), found


def test_a_record_is_written_to_the_partitions_that_its_partitioner_chooses(
    bootstrap_servers: str, unique: str, tmp_path: Path
) -> None:
    def chosen(_topic: str, _key: str, value: str, partitions: int) -> Any:
        return {"all": set(range(partitions)), "none": set(), "two": [2, 1], "key": None}[value]

    builder = StreamsBuilder()
    produced = Produced.with_(TEXT, TEXT).with_stream_partitioner(chosen)
    builder.stream(f"{unique}-in", READ).to(f"{unique}-out", produced)
    runs = Runs(bootstrap_servers, f"{unique}-app", tmp_path, builder.build())
    source, out = runs.create(f"{unique}-in"), runs.create(f"{unique}-out", 3)
    runs.send(source, ("a", "all"), ("b", "none"), ("c", "two"), ("d", "key"))
    assert runs.run() == {"read": 4, "dropped.no_partition": 1, f"written.{out}": 6}
    found = Counter((record.key, record.partition) for record in runs.read(out))
    (of_key,) = (partition for key, partition in found if key == b"d")
    assert found == Counter([*((b"a", number) for number in range(3)), (b"c", 1), (b"c", 2), (b"d", of_key)])


class Keep(Processor[Any, Any]):
    def init(self, context: Any) -> None:
        self.store = context.get_state_store("rates")

    def process(self, record: Any) -> None:
        self.store.put(record.key, record.value)


class Convert(Processor[Any, Any]):
    def init(self, context: Any) -> None:
        self.context = context
        self.store = context.get_state_store("rates")

    def process(self, record: Any) -> None:
        self.context.forward(record.with_value(f"{record.value} at {self.store.get(record.key)}"))


def test_a_read_only_store_is_restored_from_the_topic_that_fills_it(
    bootstrap_servers: str, unique: str, tmp_path: Path
) -> None:
    made = Topology()
    made.add_source("payments", f"{unique}-payments", key_serde=TEXT, value_serde=TEXT)
    made.add_processor("convert", Convert, "payments")
    store = Stores.key_value_store_builder(Stores.persistent_key_value_store("rates"), TEXT, TEXT)
    rates_topic = f"{unique}-rates"
    made.add_read_only_state_store(store, "rates-in", rates_topic, "keep", Keep, key_serde=TEXT, value_serde=TEXT)
    made.connect_processor_and_state_stores("convert", "rates")
    made.add_sink("converted", f"{unique}-out", "convert", key_serde=TEXT, value_serde=TEXT)
    runs = Runs(bootstrap_servers, f"{unique}-app", tmp_path, made.build())
    payments, rates, out = (runs.create(f"{unique}-{name}", 2) for name in ("payments", "rates", "out"))
    for partition in range(2):
        runs.send(rates, ("EUR", f"1.{partition}"), ("USD", "1"), partition=partition)
    runs.run()
    for partition in range(2):
        runs.send(payments, ("EUR", f"{partition}"), partition=partition)
    runs.run()
    shutil.rmtree(tmp_path)
    for partition in range(2):
        runs.send(payments, ("EUR", f"again {partition}"), ("USD", "7"), partition=partition)
    runs.run()
    values = sorted(record.value.decode() for record in runs.read(out))
    assert values == ["0 at 1.0", "1 at 1.1", "7 at 1", "7 at 1", "again 0 at 1.0", "again 1 at 1.1"]
    assert not [name for name in runs.admin.topic_names() if name.startswith(f"{unique}-app-")]
