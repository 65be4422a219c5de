"""A processor with stores and punctuations on the real path: exactly once over a kill and a stop, also when idle."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from millrace.kafka.offsets import end_offsets
from tests.application import Application, wait_until
from tests.integration.spark.conftest import World
from tests.records import Record


def number(value: int) -> bytes:
    return struct.pack(">q", value)


def numbers(world: World, topic: str) -> list[tuple[str, int, int]]:
    """Key, value and timestamp of every committed record of a topic."""
    return [
        ((record.key or b"").decode(), struct.unpack(">q", record.value or b"")[0], record.timestamp)
        for record in world.read(topic)
    ]


@pytest.fixture(scope="module")
def application(world: World) -> Iterator[Application]:
    world.create("in", "sums", "stream-time", "wall-clock")
    application = world.application("punctuating").start_and_wait()
    yield application
    application.kill()


@pytest.mark.kills
def test_punctuations_and_stores_are_exactly_once_over_a_kill_and_a_stop(
    world: World, application: Application
) -> None:
    def written() -> int:
        """Where the topic ends: it grows all the time, so that a reader would hardly ever come to its end."""
        topic_partition = (world.name("wall-clock"), 0)
        return end_offsets(world.admin, [topic_partition])[topic_partition]

    def wait_for_lives(records: int) -> None:
        # Each has a commit marker behind it.
        least = written() + 2 * records
        wait_until(lambda: written() >= least, timeout_s=60, what="punctuations by the wall clock")

    # No record has come yet: the stream is idle.
    wait_for_lives(5)
    world.send("in", Record(b"a", number(1), 10), Record(b"b", number(2), 120), Record(b"a", number(3), 130))
    application.wait_until_caught_up()
    wait_for_lives(3)

    application.kill()
    application.start_and_wait()
    world.send("in", Record(b"a", number(4), 420), Record(b"c", number(5), 430))
    application.wait_until_caught_up()
    wait_for_lives(3)

    assert application.stop() == 0
    application.start_and_wait()
    world.send("in", Record(b"c", number(6), 440))
    application.wait_until_caught_up()
    assert application.stop() == 0

    assert numbers(world, "sums") == [
        ("a", 1, 10),
        ("b", 2, 120),
        ("a", 4, 130),
        ("a", 8, 420),
        ("c", 5, 430),
        ("c", 11, 440),
    ]
    # Each start schedules again from 0, so that the first record after it is followed by a call.
    assert numbers(world, "stream-time") == [
        ("keys at 10", 1, 10),
        ("keys at 120", 2, 120),
        ("keys at 420", 2, 420),
        ("keys at 440", 3, 440),
    ]
    # The count is in a store: a call that was repeated or lost after its commit would show.
    lives = [value for _, value, _ in numbers(world, "wall-clock")]
    assert lives == list(range(1, len(lives) + 1))
    assert len(lives) > 10
