"""Records that the broker refuses although nothing in the settings that were known at the start tells."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from millrace.dsl import Produced
from millrace.errors import InvalidTimestampError, StateError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.record_limits import TopicLimits
from tests.copying_task import TEXT, CopyingTask
from tests.records import Record

HOUR_MS = 3_600_000
FOREVER = str(2**63 - 1)


class Mistaken(KafkaAdmin):
    """Sees no limit of times, as a task does whose clock is wrong: only the broker can tell."""

    def topic_limits(self, names: Iterable[str]) -> dict[str, TopicLimits]:
        return {name: TopicLimits() for name in names}


class Copying(CopyingTask):
    """To one topic."""

    output = ""

    def be_mistaken(self) -> None:
        self.task()._output._topics.admin = Mistaken(self.settings["bootstrap.servers"])


@pytest.fixture
def copying(bootstrap_servers: str, make_topic: Callable[..., str], unique: str, tmp_path: Path) -> Iterator[Copying]:
    output = make_topic("out")
    made = Copying(
        bootstrap_servers,
        unique,
        source=make_topic("in", message_timestamp_after_max_ms=FOREVER),
        outputs=(output,),
        dead_letters=make_topic("dlq"),
        write=lambda stream: stream.to(output, Produced.with_(TEXT, TEXT)),
        directory=tmp_path,
    )
    made.output = output
    yield made
    made.close()


def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_what_only_the_broker_refuses_is_dead_lettered_and_the_others_are_committed(
    copying: Copying, guarantee: str
) -> None:
    """Case E16."""
    copying.settings["processing.guarantee"] = guarantee
    now = now_ms()
    times = {b"b": now + 2 * HOUR_MS, b"e": now + 3 * HOUR_MS}
    copying.send(*(Record(key, b"v", times.get(key, now)) for key in [b"a", b"b", b"c", b"d", b"e"]))
    copying.be_mistaken()
    assert copying.run(0, 5).counts["dropped.production"] == 2
    written = copying.written(copying.output)
    assert sorted(set(written), key=written.index) == [b"a", b"c", b"d"]
    assert len(written) == 3 or guarantee == "at_least_once"
    assert copying.dead_lettered() == [(b"b", b"InvalidTimestampError"), (b"e", b"InvalidTimestampError")]
    assert copying.committed == 5
    copying.send(Record(b"f", b"v", now))
    assert copying.run(5, 6).counts[f"written.{copying.output}"] == 1
    assert copying.written(copying.output)[-1] == b"f"


def test_under_fail_what_only_the_broker_refuses_ends_the_batch_by_its_name(copying: Copying) -> None:
    """Case E16."""
    copying.settings["production.exception.handler"] = "fail"
    now = now_ms()
    copying.send(Record(b"a", b"v", now), Record(b"b", b"v", now + 2 * HOUR_MS))
    copying.be_mistaken()
    with pytest.raises(InvalidTimestampError) as refused:
        copying.run(0, 2)
    message = refused.value.message
    assert f"topic {copying.output} (key b'b', timestamp {now + 2 * HOUR_MS}): INVALID_TIMESTAMP" in message
    assert message.endswith(f"it comes from {copying.source}-0 offset 1.")
    assert (copying.committed, copying.written(copying.output), copying.dead_lettered()) == (0, [], [])


def test_settings_that_changed_while_it_ran_are_read_again(copying: Copying) -> None:
    """Case E16: the topic takes less than at the start."""
    now = now_ms()
    copying.send(
        Record(b"a", b"v", now),
        Record(None, b"v", now),
        Record(b"large", b"v" * 5_000, now),
        Record(b"far", b"v", now + 2 * HOUR_MS),
        Record(b"z", b"v", now),
    )
    copying.task()
    copying.admin.change_topic_settings(copying.output, {"cleanup.policy": "compact", "max.message.bytes": "2000"})
    assert copying.run(0, 5).counts["dropped.production"] == 3
    assert copying.written(copying.output) == [b"a", b"z"]
    assert copying.dead_lettered() == [
        (None, b"RecordRefusedError"),
        (b"large", b"RecordTooLargeError"),
        (b"far", b"InvalidTimestampError"),
    ]
    assert copying.committed == 5


def test_an_output_topic_that_was_deleted_ends_the_task_by_its_name(copying: Copying) -> None:
    copying.send(Record(b"a", b"v", now_ms()))
    copying.admin.delete_topics([copying.output])
    with pytest.raises(StateError, match=f"topic {copying.output}, which was deleted while the application ran"):
        copying.run(0, 1)
    assert copying.committed == 0
