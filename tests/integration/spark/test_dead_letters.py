"""Dead-letter records of dropped and of unwritable records, in the transaction of their batch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.application import Application
from tests.integration.spark.conftest import World
from tests.records import ReadRecord, Record

START = 1_700_000_000_000


@pytest.fixture(scope="module")
def application(world: World) -> Iterator[Application]:
    world.create("in", "out", "dead-letters")
    world.create("small", max_message_bytes="2000")
    running = world.application(
        "dead_lettering",
        config={
            "production.exception.handler": "continue",
            "errors.dead.letter.queue.topic.name": world.name("dead-letters"),
            "errors.dead.letter.queue.dropped.records": "late, null_key",
        },
    )
    running.start_and_wait()
    yield running
    assert running.stop() == 0


def reasons(dead_letters: list[ReadRecord]) -> list[tuple[bytes | None, str, int]]:
    """Key, reason or exception, and offset."""
    found = []
    for record in dead_letters:
        headers = dict(record.headers or ())
        reason = headers.get("__millrace.dropped.reason") or headers["__streams.errors.exception"] or b""
        found.append((record.key, reason.decode().rpartition(".")[2], int(headers["__streams.errors.offset"] or b"-1")))
    return found


def test_each_record_that_is_dropped_or_too_large_has_one_dead_letter(world: World, application: Application) -> None:
    world.send(
        "in",
        Record(b"a", b"1", START + 30_000),
        Record(b"a", b"late", START),
        Record(None, b"no key", START + 30_001),
        Record(b"b", b"x" * 5_000, START + 30_002),
        Record(b"b", b"2", START + 30_003),
    )
    application.wait_until_caught_up()

    dead_letters = world.read("dead-letters")
    assert reasons(dead_letters) == [(b"a", "late", 1), (None, "null_key", 2), (b"b", "RecordTooLargeError", 3)]
    assert [record.value for record in dead_letters] == [b"late", b"no key", b"x" * 5_000]
    assert [record.value for record in world.read("small")] == [b"1", b"late", b"no key", b"2"]
