"""What a task loses between two batches: bytes of its database, the files themselves, or the changelog behind it."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from millrace.config import StreamsConfig
from millrace.driver.preparation import Preparer
from millrace.driver.status import ApplicationStatus, DriverIdentity
from millrace.driver.takeover import Takeover
from millrace.dsl import Consumed, Materialized, Processor, Produced, Stores, StreamsBuilder
from millrace.dsl import Record as ProcessedRecord
from millrace.errors import OffsetsMovedError, StateError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import committed_offsets, end_offsets
from millrace.kafka.topics import TopicSpec
from millrace.serdes import LongSerde, StringSerde
from millrace.spark.plan import QueryPlan
from millrace.task.batch import TaskBatch
from millrace.task.batch_outcome import BatchOutcome
from millrace.task.input import OffsetRange
from millrace.task.task import Task
from millrace.topology.topology import FrozenTopology
from tests.damage import flip_bytes, flip_middle
from tests.records import Record, produce, read_topic

KEYS = [b"key-%04d" % number for number in range(3_000)]


class Counting:
    """A task that counts the records of each key, and is given everything that its topic has."""

    settings: ClassVar[dict[str, str]] = {}

    def __init__(self, bootstrap_servers: str, name: str, directory: Path) -> None:
        self.admin = KafkaAdmin(bootstrap_servers)
        self.source, self.output, self.changelog = f"{name}-in", f"{name}-out", f"{name}-counts-changelog"
        self.config = StreamsConfig.from_mapping({
            "application.id": name,
            "bootstrap.servers": bootstrap_servers,
            "state.dir": str(directory),
            "replication.factor": 1,
            "rocksdb.write.buffer.bytes": 65_536,
            **self.settings,
        })  # fmt: skip
        self.admin.create_missing([TopicSpec(name=topic, partitions=1) for topic in (self.source, self.output)])
        self._bootstrap_servers = bootstrap_servers
        self._sent = 0
        self.plan = self.prepare()
        self.task = Task(self.plan.task_spec(0))

    def prepare(self, last: ApplicationStatus | None = None) -> QueryPlan:
        (plan,) = Preparer(self.config, self._topology()).prepare(last, run_id=1).plans
        return plan

    def count_all_keys(self) -> BatchOutcome:
        """Sends a record of each key and has the task count them."""
        produce(self._bootstrap_servers, self.source, [Record(key, b"v", 5) for key in KEYS])
        self._sent += len(KEYS)
        # No rows came from Spark: the task reads them itself.
        offsets = OffsetRange(self._sent, self._sent, self._sent)
        return self.task.run_batch(TaskBatch([], {(self.source, 0): offsets}))

    def reopen(self) -> None:
        self.task.close()
        self.task = Task(self.plan.task_spec(0))

    def counts(self) -> set[int]:
        """The last count of every key; every step before it must be there once."""
        counts: dict[bytes | None, int] = {}
        for record in read_topic(self._bootstrap_servers, self.output):
            (count,) = struct.unpack(">q", record.value or b"")
            assert count == counts.get(record.key, 0) + 1
            counts[record.key] = count
        assert counts.keys() == set(KEYS)
        return set(counts.values())

    def move_offsets(self, offset: int) -> int:
        """Sets the committed offset as an administrator's tool does; gives the one before."""
        (before,) = committed_offsets(self.admin, self.config.application_id, [(self.source, 0)]).values()
        request = ConsumerGroupTopicPartitions(self.config.application_id, [TopicPartition(self.source, 0, offset)])
        (future,) = self.admin.client.alter_consumer_group_offsets([request]).values()
        future.result(30)
        return before.offset

    def sign(self) -> list[str]:
        """What ``millrace take-over`` does."""
        takeover = Takeover(self.config, self._topology(), transactional_id=f"{self.config.application_id}-start")
        return [str(task) for task in takeover.run()]

    def changelog_end(self) -> int:
        topic_partition = (self.changelog, 0)
        return end_offsets(self.admin, [topic_partition])[topic_partition]

    def status(self) -> ApplicationStatus:
        """What a driver would have published."""
        return ApplicationStatus(
            application_id=self.config.application_id,
            state="RUNNING",
            driver=DriverIdentity.of_this_process(),
            driver_epoch=1,
            changelog_topic_ids=dict(self.plan.changelog_ids),
        )

    def close(self) -> None:
        self.task.close()
        self.admin.delete_topics([self.source, self.output, self.changelog])

    def _topology(self) -> FrozenTopology:
        builder = StreamsBuilder()
        counts = Materialized.as_("counts").with_value_serde(LongSerde())
        stream = builder.stream(self.source, Consumed.with_(StringSerde(), StringSerde()))
        table = stream.group_by_key().count(counts)
        table.to_stream().to(self.output, Produced.with_(StringSerde(), LongSerde()))
        return builder.build()


class CountingItself(Counting):
    """As :class:`Counting`, by a processor, which may hide what it meets; failed records would be skipped."""

    settings: ClassVar[dict[str, str]] = {"processing.exception.handler": "continue"}
    hides = False

    def _topology(self) -> FrozenTopology:
        itself, held = self, list[object]()

        class CountAndScan(Processor[str, str]):
            def process(self, record: ProcessedRecord[str, str], /) -> None:
                counts = self.context.get_state_store("counts")
                try:
                    count = (counts.get(record.key) or 0) + 1
                    if record.key == KEYS[0].decode():
                        scan = counts.all()
                        held.append(scan)  # and never lets it go
                        next(scan, None)
                except StateError as error:
                    if itself.hides:
                        return
                    raise ValueError("no counts") from error
                counts.put(record.key, count)
                self.context.forward(record.with_value(count))

        builder = StreamsBuilder()
        store = Stores.persistent_key_value_store("counts")
        builder.add_state_store(Stores.key_value_store_builder(store, StringSerde(), LongSerde()))
        stream = builder.stream(self.source, Consumed.with_(StringSerde(), StringSerde()))
        stream.process(CountAndScan, "counts").to(self.output, Produced.with_(StringSerde(), LongSerde()))
        return builder.build()


@pytest.fixture
def counting(bootstrap_servers: str, unique: str, tmp_path: Path) -> Iterator[Counting]:
    made = Counting(bootstrap_servers, unique, tmp_path)
    made.count_all_keys()
    yield made
    made.close()


@pytest.mark.parametrize("damage", [flip_middle, flip_bytes])
def test_damaged_bytes_are_restored_from_the_changelog_in_the_same_batch(counting: Counting, damage) -> None:
    for _ in range(2):  # what is in the write-ahead log comes into a table when the database is opened
        counting.reopen()
        counting.count_all_keys()
    counting.task.close()
    assert damage(counting.plan.task_spec(0).state_directory)
    outcome = counting.count_all_keys()
    assert (outcome.rebuilds, outcome.restored) == (1, 3 * len(KEYS))
    assert counting.counts() == {4}
    assert counting.count_all_keys().rebuilds == 0
    assert counting.counts() == {5}


@pytest.mark.parametrize("hides", [False, True], ids=["raises another error", "goes on"])
def test_damaged_bytes_that_a_processor_meets_are_restored_and_no_record_is_skipped(
    bootstrap_servers: str, unique: str, tmp_path: Path, hides: bool
) -> None:
    counting = CountingItself(bootstrap_servers, unique, tmp_path)
    counting.hides = hides
    try:
        for _ in range(3):
            counting.count_all_keys()
            counting.reopen()
        counting.task.close()
        assert flip_middle(counting.plan.task_spec(0).state_directory)
        outcome = counting.count_all_keys()
        assert (outcome.rebuilds, outcome.restored) == (1, 3 * len(KEYS))
        assert counting.counts() == {4}
    finally:
        counting.close()


def test_a_removed_directory_is_restored_although_the_task_has_it_open(counting: Counting) -> None:
    shutil.rmtree(counting.plan.task_spec(0).state_directory)
    rebuilds = sum(counting.count_all_keys().rebuilds for _ in range(4))
    assert rebuilds == 1
    assert counting.counts() == {5}


def test_a_deleted_changelog_stops_the_task_before_it_commits(counting: Counting) -> None:
    topic_partition = (counting.source, 0)
    before = committed_offsets(counting.admin, counting.config.application_id, [topic_partition])
    counting.admin.delete_topics([counting.changelog])
    counting.admin.create_missing([TopicSpec(name=counting.changelog, partitions=1)])
    with pytest.raises(StateError, match=f"deleted while it ran: {counting.changelog}") as raised:
        counting.count_all_keys()
    assert "restore a savepoint" in raised.value.remedy
    assert committed_offsets(counting.admin, counting.config.application_id, [topic_partition]) == before


def test_a_start_is_refused_when_the_changelog_is_gone_or_another_one(counting: Counting) -> None:
    counting.task.close()
    counting.admin.delete_topics([counting.changelog])
    with pytest.raises(StateError, match=f"{counting.changelog} is gone") as raised:
        counting.prepare(counting.status())
    assert "reset the application" in raised.value.remedy
    assert counting.changelog not in counting.admin.describe_topics([counting.changelog]), "it must not come back empty"

    counting.admin.create_missing([TopicSpec(name=counting.changelog, partitions=1)])
    with pytest.raises(StateError, match=rf"{counting.changelog}-0 ends at offset 0, and offset \d+ was committed"):
        counting.prepare()
    produce(counting.config.bootstrap_servers, counting.changelog, [Record(b"x", b"y") for _ in range(2 * len(KEYS))])
    with pytest.raises(StateError, match=f"{counting.changelog} was .*, is "):
        counting.prepare(counting.status())


def test_moved_offsets_are_refused_until_they_are_put_back_and_signed(counting: Counting) -> None:
    counting.task.close()
    moved = counting.move_offsets(0)
    with pytest.raises(
        OffsetsMovedError, match=f"Another client committed offsets.* {counting.source}-0 at 0"
    ) as raised:
        counting.prepare()
    assert "millrace take-over" in raised.value.remedy
    assert moved
    assert counting.move_offsets(moved) == 0
    assert counting.sign() == [
        f"task 0_0: {counting.source}-0 at {moved}; stores counts up to {counting.changelog_end()}"
    ]
    counting.plan = counting.prepare()
    counting.reopen()
    outcome = counting.count_all_keys()
    assert (outcome.restored, outcome.rebuilds) == (0, 0)
    assert counting.counts() == {2}
