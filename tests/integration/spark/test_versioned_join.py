"""A stream joined with a versioned table after a grace period, with restarts while records wait."""

from __future__ import annotations

import shutil

import pytest

from tests.integration.spark.conftest import World
from tests.records import Record

START = 1_700_000_000_000


def at(second: int) -> int:
    return START + second * 1000


@pytest.mark.long("waits through restarts of a driver; tests/unit/testing and parity have the join itself")
def test_waiting_records_and_history_survive_restarts_with_and_without_local_state(world: World) -> None:
    """Each run reads to the end before the next records come, so the order between the topics is known."""
    world.create("table", "stream", "joined")
    application = world.application("versioned_join", config={"commit.interval.ms": 0})
    world.send("table", Record(b"k", b"p0", at(0)), Record(b"k", b"p20", at(20)), Record(b"l", b"q10", at(10)))
    world.send("stream", Record(b"k", b"o10", at(10)), Record(b"k", b"o25", at(25)), Record(b"l", b"o5", at(5)))
    application.start_and_wait()
    application.wait_until_caught_up(120)
    assert world.read("joined") == []
    application.stop()

    # What they waited for: a late version between two that the store had before the restart.
    world.send("table", Record(b"k", b"p8", at(8)), Record(b"k", None, at(24)))
    application.start_and_wait()
    application.wait_until_caught_up(120)
    world.send("stream", Record(b"l", b"o71", at(71)))
    application.wait_until_caught_up(120)
    assert joined(world) == [(b"l", b"o5:None", at(5)), (b"k", b"o10:p8", at(10))]
    application.stop()

    shutil.rmtree(application.state_directory)
    application.start_and_wait()
    application.wait_until_caught_up(120)
    world.send("stream", Record(b"k", b"late", at(9)), Record(b"k", b"o140", at(140)))
    application.wait_until_caught_up(120)
    assert joined(world) == [
        (b"l", b"o5:None", at(5)),
        (b"k", b"o10:p8", at(10)),
        (b"k", b"late:p8", at(9)),
        (b"k", b"o25:None", at(25)),
        (b"l", b"o71:q10", at(71)),
    ]
    application.stop()


def joined(world: World) -> list[tuple[bytes | None, bytes | None, int]]:
    return [(record.key, record.value, record.timestamp) for record in world.read("joined")]
