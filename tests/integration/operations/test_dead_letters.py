"""Dead-letter records against the real broker: listed, sent back exactly once, deleted."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest
from starlette.testclient import TestClient

from millrace.errors import OperationError, SerializationError
from millrace.insight.overview import OverviewWatch
from millrace.install.application import Application
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.murmur2 import partition_for
from millrace.kafka.offsets import begin_offsets
from millrace.operations import resume
from millrace.operations.dead_letters import (
    Selection,
    list_dead_letter_records,
    purge_dead_letter_records,
    replay_dead_letter_records,
)
from millrace_airflow.ui.app import create_app
from millrace_airflow.ui.gateway import AirflowGateway
from tests.dead_letters import TIME, dead_letter_record_of
from tests.integration.operations.resetting import Left, create, killed_at
from tests.records import ReadRecord, Record, produce, produce_transaction, read_topic

KEYS = (b"a", b"b", None, b"c")


@pytest.fixture
def left(leave: Callable[..., Left], admin: KafkaAdmin, unique: str) -> Left:
    """An application with four dead-letter records of records of ``in``, and one of a topic that it does not read."""
    topic = f"{unique}-dlq"
    create(admin, f"{unique}-in", f"{unique}-out", topic, partitions=3, retention_ms="-1")
    application = leave("app", "copying", errors_dead_letter_queue_topic_name=topic)
    records = [
        dead_letter_record_of(
            f"{unique}-in", offset, key, SerializationError("no number") if offset % 2 else ValueError("no")
        )
        for offset, key in enumerate(KEYS)
    ]
    produce(admin.bootstrap_servers, topic, [*records, dead_letter_record_of("elsewhere", 9, b"x", ValueError("no"))])
    return application


def sent_back(admin: KafkaAdmin, unique: str) -> list[ReadRecord]:
    return sorted(read_topic(admin.bootstrap_servers, f"{unique}-in"), key=lambda record: record.timestamp)


def offsets(records: Sequence[ReadRecord]) -> list[int]:
    return [record.timestamp - TIME for record in records]


def test_records_go_back_as_they_were_to_the_partition_of_their_key(left: Left, admin: KafkaAdmin, unique: str) -> None:
    plan = replay_dead_letter_records(Application(left.home, left.application_id), dry_run=True)
    assert (
        f"4 to {unique}-in; dead-letter records 0:0-3 (1 stay: elsewhere is no input of {left.application_id})"
        in plan.steps[0]
    )
    assert sent_back(admin, unique) == []

    outcome = replay_dead_letter_records(Application(left.home, left.application_id))
    assert outcome.results["send"]["sent"] == {f"{unique}-in": 4}
    records = sent_back(admin, unique)
    assert offsets(records) == [0, 1, 2, 3]
    for record, key in zip(records, KEYS, strict=True):
        offset = record.timestamp - TIME
        assert (record.key, record.value) == (key, b"\xfe%d" % offset)
        assert record.headers == [("trace", b"\x00\xff"), ("empty", None), ("__streams.errors.topic", b"older")]
        assert record.partition == (1 if key is None else partition_for(key, 3))


def test_a_second_replay_is_refused_unless_forced(left: Left, admin: KafkaAdmin, unique: str) -> None:
    one = Selection(positions=frozenset({(0, 1)}))
    replay_dead_letter_records(Application(left.home, left.application_id), selection=one, to_source_partition=True)
    with pytest.raises(OperationError, match=r"Dead-letter record 0:1 of .* is not sent back: replayed before"):
        replay_dead_letter_records(Application(left.home, left.application_id), selection=one)
    replay_dead_letter_records(Application(left.home, left.application_id), selection=Selection(error="serialization"))
    assert offsets(sent_back(admin, unique)) == [1, 3]
    with pytest.raises(OperationError, match=r"No dead-letter record .* is to be sent back \(2: replayed before"):
        replay_dead_letter_records(
            Application(left.home, left.application_id), selection=Selection(error="serialization")
        )
    replay_dead_letter_records(Application(left.home, left.application_id), selection=one, force=True)
    records = sent_back(admin, unique)
    assert offsets(records) == [1, 1, 3]
    assert {record.partition for record in records[:2]} == {1, partition_for(b"b", 3)}
    listed = list_dead_letter_records(Application(left.home, left.application_id))
    assert [each.record.offset for each in listed if each.replayed] == [1, 3]


@pytest.mark.kills
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    "point",
    ["replay-send-begins", "replay-batch-sent", "replay-batch-committed", "replay-send-ends", "replay-check-ends"],
)
def test_a_killed_replay_goes_on_and_sends_each_record_once(
    left: Left, admin: KafkaAdmin, unique: str, point: str, force: bool
) -> None:
    if force:
        replay_dead_letter_records(
            Application(left.home, left.application_id),
            selection=Selection(positions=frozenset({(0, 2)})),
        )
    killed_at(point, left.home, unique, "dlq", "replay", left.application_id, *(["--force"] if force else []))
    resume(Application(left.home, left.application_id))
    assert offsets(sent_back(admin, unique)) == ([0, 1, 2, 2, 3] if force else [0, 1, 2, 3])


def test_what_the_letter_does_not_have_is_read_from_the_log_as_long_as_it_is_there(
    leave: Callable[..., Left], admin: KafkaAdmin, unique: str
) -> None:
    topic, source = f"{unique}-dlq", f"{unique}-in"
    create(admin, source, f"{unique}-out", partitions=3, retention_ms="-1")
    create(admin, topic, message_timestamp_type="LogAppendTime")
    application = leave("app", "framed", errors_dead_letter_queue_topic_name=topic)
    originals = [Record(b"k%d" % number, b"original", TIME + number, partition=1) for number in range(3)]
    produce(admin.bootstrap_servers, source, originals)
    produce(
        admin.bootstrap_servers,
        topic,
        [dead_letter_record_of(source, number, b"x", ValueError("no")) for number in range(3)],
    )
    admin.delete_records({(source, 1): 1})

    outcome = replay_dead_letter_records(Application(application.home, application.application_id))
    assert "1 stay: the dead-letter record does not have its record wholly" in outcome.steps[0]
    again = [record for record in sent_back(admin, unique) if record.offset > 2 or record.partition != 1]
    assert [(record.key, record.value, record.timestamp) for record in again] == [
        (b"k1", b"original", TIME + 1),
        (b"k2", b"original", TIME + 2),
    ]


def test_a_purge_says_what_is_left_and_forgets_what_was_replayed(left: Left, admin: KafkaAdmin, unique: str) -> None:
    replay_dead_letter_records(
        Application(left.home, left.application_id),
        selection=Selection(positions=frozenset({(0, 0), (0, 3)})),
    )
    plan = purge_dead_letter_records(Application(left.home, left.application_id), before_ms=TIME + 2, dry_run=True)
    assert (
        f"Delete 2 dead-letter records of {unique}-dlq, 1 of which were never replayed: all before 0:2." in plan.steps
    )
    assert len(list_dead_letter_records(Application(left.home, left.application_id))) == 5

    outcome = purge_dead_letter_records(Application(left.home, left.application_id), before_ms=TIME + 2)
    assert outcome.results["check"]["left"] == 3
    assert outcome.results["forget"]["markers"] == 1
    assert begin_offsets(admin, [(f"{unique}-dlq", 0)]) == {(f"{unique}-dlq", 0): 2}
    purge_dead_letter_records(Application(left.home, left.application_id), before_offset=(0, 3))
    assert [each.record.name for each in list_dead_letter_records(Application(left.home, left.application_id))] == [
        "0:3",
        "0:4",
    ]
    purge_dead_letter_records(Application(left.home, left.application_id))
    assert list_dead_letter_records(Application(left.home, left.application_id)) == []
    with pytest.raises(OperationError, match="lies before that"):
        purge_dead_letter_records(Application(left.home, left.application_id))


def test_the_latest_are_found_from_the_end_of_the_topic(left: Left, admin: KafkaAdmin, unique: str) -> None:
    """Most offsets of the topic are no dead-letter records: ends of transactions, half of them aborted."""
    topic = f"{unique}-dlq"
    for number in range(40):
        produce_transaction(
            admin.bootstrap_servers,
            topic,
            [dead_letter_record_of(f"{unique}-in", 100 + number, b"k", ValueError("no"))],
            transactional_id=f"{unique}-letters",
            commit=number % 4 == 0,
        )
    latest = list_dead_letter_records(Application(left.home, left.application_id), limit=8)
    assert [each.record.timestamp - TIME for each in latest] == [108, 112, 116, 120, 124, 128, 132, 136]
    everything = list_dead_letter_records(Application(left.home, left.application_id), limit=100)
    assert everything == list_dead_letter_records(Application(left.home, left.application_id))
    assert len(everything) == 15


def test_the_page_lists_them_without_their_records(left: Left, admin: KafkaAdmin, unique: str) -> None:
    replay_dead_letter_records(
        Application(left.home, left.application_id), selection=Selection(positions=frozenset({(0, 1)}))
    )
    watch = OverviewWatch(left.home)
    pages = create_app(watch, AirflowGateway(), who=lambda: "viewer", may_view=lambda: None, may_run=lambda: None)
    path = f"/applications/{left.application_id}/dead-letters"
    try:
        with TestClient(pages) as client:
            shown = client.get(path).text
            admin.delete_topics([f"{unique}-dlq"])
            gone = client.get(path)
    finally:
        watch.close()
    rows = [re.sub(r"<[^>]+>", " ", row) for row in re.findall(r"<tr><th scope=.row.>.*?</tr>", shown)]
    assert [row.split()[0] for row in rows] == ["0:4", "0:3", "0:2", "0:1", "0:0"]
    assert [row.split()[-1] == "no" for row in rows] == [True, True, True, False, True]
    assert "SerializationError" in rows[1]
    assert f"{unique}-in-1, offset 3" in rows[1]
    assert gone.status_code == 200
    assert "They cannot be listed" in gone.text
