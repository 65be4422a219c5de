"""Topics to which an application may not write: the others' records are committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from millrace.dsl import KStream, Produced
from millrace.errors import TopicRefusedError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.topics import TopicSpec
from tests.copying_task import TEXT, CopyingTask, Write
from tests.integration.security.granting import everything
from tests.records import Record
from tests.secure_broker import SecureBroker

PASSWORD = "a marker of a password"
MakeWrite = Callable[[str], Write]
RECORDS = [Record(b"a", b"open"), Record(b"b", b"closed"), Record(b"c", b"open")]


class Restricted(CopyingTask):
    """Its user may do everything but write to one topic."""

    opened = ""
    closed = ""


@pytest.fixture
def restricted(secure_broker: SecureBroker, unique: str, tmp_path: Path) -> Iterator[Callable[[MakeWrite], Restricted]]:
    """``restricted(write)`` makes one; the topics are ``<unique>-open`` and ``<unique>-closed``."""
    made: list[Restricted] = []

    def make(write: MakeWrite) -> Restricted:
        names = {part: f"{unique}-{part}" for part in ("in", "dlq", "open", "closed")}
        KafkaAdmin(secure_broker.plain_servers).create_missing([TopicSpec(name=name) for name in names.values()])
        login = secure_broker.add_user(unique, PASSWORD)
        secure_broker.grant(everything(unique))
        secure_broker.grant([_denied(unique, names["closed"])])
        task = Restricted(
            secure_broker.bootstrap_servers,
            unique,
            source=names["in"],
            outputs=(names["open"], names["closed"]) if write is fixed else (),
            dead_letters=names["dlq"],
            write=write(unique),
            directory=tmp_path,
            settings={**login, "sasl.password": PASSWORD},
            plain_servers=secure_broker.plain_servers,
        )
        task.opened, task.closed = names["open"], names["closed"]
        task.send(*RECORDS)
        made.append(task)
        return task

    yield make
    for task in made:
        task.close()


def _denied(user: str, topic: str) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        AclOperation.WRITE,
        AclPermissionType.DENY,
    )


def chosen(prefix: str) -> Write:
    """Each record names its topic."""
    return lambda stream: stream.to(lambda key, value, context: f"{prefix}-{value}", Produced.with_(TEXT, TEXT))


def is_named(name: str) -> Callable[[str, str], bool]:
    return lambda key, value: value == name


def fixed(prefix: str) -> Write:
    """One sink for each topic."""

    def write(stream: KStream) -> None:
        for name in ("open", "closed"):
            part = stream.filter(is_named(name))
            part.to(f"{prefix}-{name}", Produced.with_(TEXT, TEXT))

    return write


@pytest.mark.parametrize("write", [chosen, fixed])
def test_records_for_a_forbidden_topic_are_dead_lettered_and_the_others_are_committed(
    restricted: Callable[[MakeWrite], Restricted], write: MakeWrite
) -> None:
    """Case E16, for a whole topic."""
    task = restricted(write)
    for start, end in ((0, 3), (3, 6)):
        assert task.run(start, end).counts["dropped.production"] == 1
        task.send(*RECORDS)
    assert task.committed == 6
    assert task.written(task.opened) == [b"a", b"c"] * 2
    assert task.written(task.closed) == []
    assert task.dead_lettered() == [(b"b", b"TopicRefusedError")] * 2


def test_under_fail_the_topic_and_the_permission_are_named(restricted: Callable[[MakeWrite], Restricted]) -> None:
    """Case E16."""
    task = restricted(fixed)
    task.settings["production.exception.handler"] = "fail"
    with pytest.raises(TopicRefusedError) as refused:
        task.run(0, 3)
    assert f"may not write to topic {task.closed}" in refused.value.message
    assert refused.value.message.endswith(f"it comes from {task.source}-0 offset 1.")
    assert f"grant WRITE and DESCRIBE on topic {task.closed}" in refused.value.remedy
    assert (task.committed, task.written(task.opened)) == (0, [])
