"""Case W14: what waits for its window to close survives restarts, with or without the state directory.

One application counts by key and window, and sends each count once: by suppression, and on window close.
"""

from __future__ import annotations

import shutil
import struct

import pytest

from tests.integration.spark.conftest import World
from tests.records import ReadRecord, Record

Final = tuple[str, int, int, int]
"""Key, start of the window, count, timestamp."""


def finals(records: list[ReadRecord]) -> list[Final]:
    found = []
    for record in records:
        assert record.key is not None
        assert record.value is not None
        (start,) = struct.unpack(">q", record.key[-8:])
        found.append((record.key[:-8].decode(), start, *struct.unpack(">q", record.value), record.timestamp))
    return found


def sent(world: World) -> tuple[list[Final], list[Final]]:
    """What was committed, by suppression and on window close."""
    return finals(world.read("suppressed")), finals(world.read("on-close"))


@pytest.mark.long("waits through restarts of a driver; test_scenarios_on_broker.py restarts tasks that hold results")
@pytest.mark.kills
def test_each_final_result_is_sent_once_over_restarts(world: World) -> None:
    world.create("in", "suppressed", "on-close")
    application = world.application("final_results")
    world.send("in", Record(b"k", b"1", 1), Record(b"k", b"1", 5))
    application.start_and_wait()
    application.wait_until_caught_up()
    assert sent(world) == ([], [])
    for store in ("final-store", "closing"):
        assert application.metric("millrace_stream_state_held_back_results", store=store) == 1
        assert application.metric("millrace_stream_state_held_back_since_timestamp_seconds", store=store) == 0.01
    buffered = world.read_any(f"{application.application_id}-final-store-changelog")
    assert [(record.key, record.headers) for record in buffered][-1] == (b"k" + bytes(8), [("v", b"\x03")])
    assert application.stop() == 0

    shutil.rmtree(application.state_directory)
    world.send("in", Record(b"o", b"1", 20))
    application.start_and_wait()
    application.wait_until_caught_up()
    first = [("k", 0, 2, 5)]
    assert sent(world) == (first, first)
    assert application.metric("millrace_stream_task_restore_records_total") >= 2
    application.kill()

    shutil.rmtree(application.state_directory)
    world.send("in", Record(b"p", b"1", 40))
    application.start_and_wait()
    application.wait_until_caught_up()
    both = [*first, ("o", 20, 1, 20)]
    assert sent(world) == (both, both)
    application.kill()

    # With its state directory, over a jump of time beyond the retention, and a record that is late for its window.
    world.send("in", Record(b"q", b"1", 1_000_000), Record(b"p", b"1", 41))
    application.start_and_wait()
    application.wait_until_caught_up()
    every = [*both, ("p", 40, 1, 40)]
    assert sent(world) == (every, every)
    assert application.stop() == 0
