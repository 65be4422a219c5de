"""Records that the broker refuses although nothing in the settings that were known at the start tells."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millrace.config import StreamsConfig
from millrace.dsl import Consumed, Produced, StreamsBuilder
from millrace.errors import RecordRefusedError, StateError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import committed_offsets
from millrace.kafka.producer import TaskProducer
from millrace.kafka.record_limits import TopicLimits
from millrace.serdes import StringSerde
from millrace.task.gap_reader import read_gap
from millrace.task.input import OffsetRange
from millrace.task.signature import Signature
from millrace.task.spec import TaskSpec
from millrace.task.task import BatchOutcome, Task
from tests.records import Record, produce, read_topic

TEXT = StringSerde()
HOUR_MS = 3_600_000
FOREVER = str(2**63 - 1)


class Copying:
    """A task that copies a topic, with what it knows of the topics that it writes to."""

    def __init__(self, bootstrap_servers: str, name: str, topics: tuple[str, str, str], directory: Path) -> None:
        self.bootstrap_servers, self.name, self.directory = bootstrap_servers, name, directory
        self.source, self.output, self.letters = topics
        self.admin = KafkaAdmin(bootstrap_servers)
        self.guarantee = "exactly_once_v2"
        self._tasks: list[Task] = []

    def send(self, *records: Record) -> None:
        produce(self.bootstrap_servers, self.source, list(records))

    def run(self, task: Task, start: int, end: int) -> BatchOutcome:
        """Processes records as one batch."""
        place = (self.source, 0)
        rows, _ = read_gap(task.spec.config, (self.source,), place, start=start, end=end)
        return task.run_batch([rows], {place: OffsetRange(start, end, end)})

    def task(self, *, handler: str = "continue") -> Task:
        builder = StreamsBuilder()
        stream = builder.stream(self.source, Consumed.with_(TEXT, TEXT))
        stream.to(self.output, Produced.with_(TEXT, TEXT))
        (sub_topology,) = builder.build().sub_topologies
        config = StreamsConfig.from_mapping(
            {
                "application.id": self.name,
                "bootstrap.servers": self.bootstrap_servers,
                "state.dir": str(self.directory),
                "processing.guarantee": self.guarantee,
                "production.exception.handler": handler,
                "errors.dead.letter.queue.topic.name": self.letters,
            }
        )
        spec = TaskSpec(
            sub_topology=sub_topology,
            partition=0,
            config=config,
            run_id=1,
            inputs=((self.source, 0),),
            topic_ids={},
            partition_counts={self.output: 1, self.letters: 1},
        )
        place = (self.source, 0)
        if place not in committed_offsets(self.admin, self.name, [place]):
            with TaskProducer(self.bootstrap_servers, transactional_id=f"{self.name}-start") as producer:
                producer.init()
                producer.begin()
                producer.commit({place: (0, Signature(run=1).to_metadata({place: 0})[place])}, self.name)
        task = Task(spec)
        self._tasks.append(task)
        return task

    @property
    def committed(self) -> int:
        return committed_offsets(self.admin, self.name, [(self.source, 0)])[self.source, 0].offset

    def written(self) -> list[bytes | None]:
        return [record.key for record in read_topic(self.bootstrap_servers, self.output)]

    def lettered(self) -> list[tuple[bytes | None, bytes | None]]:
        """Key, and the class of the exception, of the dead letters."""
        letters = read_topic(self.bootstrap_servers, self.letters)
        return [(each.key, dict(each.headers)["__streams.errors.exception"].rpartition(b".")[2]) for each in letters]

    def close(self) -> None:
        for task in self._tasks:
            task.close()


@pytest.fixture
def copying(bootstrap_servers: str, make_topic: Callable[..., str], unique: str, tmp_path: Path) -> Iterator[Copying]:
    source = make_topic("in", message_timestamp_after_max_ms=FOREVER)
    made = Copying(bootstrap_servers, unique, (source, make_topic("out"), make_topic("dlq")), tmp_path)
    yield made
    made.close()


def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_what_only_the_broker_refuses_is_dead_lettered_and_the_others_are_committed(
    copying: Copying, guarantee: str
) -> None:
    """Case E16: the task believes that its topic takes any time, as one does whose clock is wrong."""
    copying.guarantee = guarantee
    now = now_ms()
    times = {b"b": now + 2 * HOUR_MS, b"e": now + 3 * HOUR_MS}
    copying.send(*(Record(key, b"v", times.get(key, now)) for key in [b"a", b"b", b"c", b"d", b"e"]))
    task = copying.task()
    # What it learns when it looks again is what it believed: only the single records can tell.
    task._topics.admin = _Mistaken(copying.bootstrap_servers)
    outcome = copying.run(task, 0, 5)
    assert outcome.counts["dropped.production"] == 2
    written = copying.written()
    assert sorted(set(written)) == [b"a", b"c", b"d"]
    assert len(written) == 3 or guarantee == "at_least_once"
    assert copying.lettered() == [(b"b", b"InvalidTimestampError"), (b"e", b"InvalidTimestampError")]
    assert copying.committed == 5
    copying.send(Record(b"f", b"v", now))
    assert copying.run(task, 5, 6).counts[f"written.{copying.output}"] == 1


class _Mistaken(KafkaAdmin):
    """Knows nothing of the limits of times."""

    def topic_limits(self, names: object) -> dict[str, TopicLimits]:
        return {name: TopicLimits() for name in names}  # type: ignore[attr-defined]


def test_under_fail_what_only_the_broker_refuses_ends_the_batch_by_its_name(copying: Copying) -> None:
    """Case E16."""
    now = now_ms()
    copying.send(Record(b"a", b"v", now), Record(b"b", b"v", now + 2 * HOUR_MS))
    task = copying.task(handler="fail")
    task._topics.admin = _Mistaken(copying.bootstrap_servers)
    rows, _ = read_gap(task.spec.config, (copying.source,), (copying.source, 0), start=0, end=2)
    with pytest.raises(RecordRefusedError) as refused:
        task.run_batch([rows], {(copying.source, 0): OffsetRange(0, 2, 2)})
    assert (
        f"topic {copying.output} (key b'b', timestamp {now + 2 * HOUR_MS}): INVALID_TIMESTAMP" in refused.value.message
    )
    assert refused.value.message.endswith(f"it comes from {copying.source}-0 offset 1.")
    assert (copying.committed, copying.written(), copying.lettered()) == (0, [], [])


def test_settings_that_changed_while_it_ran_are_read_again(copying: Copying) -> None:
    """Case E16: the topic took less than at the start for all three reasons."""
    now = now_ms()
    copying.send(
        Record(b"a", b"v", now),
        Record(None, b"v", now),
        Record(b"large", b"v" * 5_000, now),
        Record(b"far", b"v", now + 2 * HOUR_MS),
        Record(b"z", b"v", now),
    )
    copying.admin.change_topic_settings(copying.output, {"cleanup.policy": "compact", "max.message.bytes": "2000"})
    outcome = copying.run(copying.task(), 0, 5)
    assert outcome.counts["dropped.production"] == 3
    assert copying.written() == [b"a", b"z"]
    assert copying.lettered() == [
        (None, b"RecordRefusedError"),
        (b"large", b"RecordTooLargeError"),
        (b"far", b"InvalidTimestampError"),
    ]
    assert copying.committed == 5


def test_an_output_topic_that_was_deleted_ends_the_task_by_its_name(copying: Copying) -> None:
    copying.send(Record(b"a", b"v", now_ms()))
    copying.admin.delete_topics([copying.output])
    with pytest.raises(StateError, match=f"topic {copying.output}, which was deleted while the application ran"):
        copying.run(copying.task(), 0, 1)
    assert copying.committed == 0
