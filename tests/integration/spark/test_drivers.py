"""Two drivers of one application: on one state directory the second gives way, on another the first."""

from __future__ import annotations

import struct

import pytest

from tests.integration.spark.conftest import World
from tests.records import Record


def counts(world: World) -> dict[bytes, int]:
    return {record.key or b"": struct.unpack(">q", record.value or b"")[0] for record in world.read("named-out")}


@pytest.mark.kills
def test_one_driver_works_whoever_starts_beside_it(world: World) -> None:
    """Case S11, and the fencing of an older driver by a newer one."""
    world.create("named", "named-out", partitions=2)
    first = world.application("explicit_names", "first")
    same_directory = world.application("explicit_names", "second")
    other_directory = world.application("explicit_names", "third")
    for application in (same_directory, other_directory):
        application.application_id = first.application_id
    same_directory.config["state.dir"] = str(first.state_directory)
    first.start_and_wait()
    world.send("named", Record(b"a", b"1", 5), Record(b"b", b"1", 5))
    first.wait_until_caught_up()

    # Same state directory: the second one ends and harms nobody.
    assert same_directory.start().wait_for_exit(30) == 1
    assert str(first.state_directory) in same_directory.log
    assert "Remedy" in same_directory.log
    world.send("named", Record(b"a", b"2", 6))
    first.wait_until_caught_up()
    assert counts(world) == {b"a": 2, b"b": 1}

    # Another state directory: the newer one takes over, restores, and the older one ends and says why.
    other_directory.start()
    assert first.wait_for_exit() == 3
    assert "newer driver" in first.log
    other_directory.wait_until_running()
    world.send("named", Record(b"a", b"3", 7))
    other_directory.wait_until_caught_up()
    assert counts(world) == {b"a": 3, b"b": 1}
    status = other_directory.published_status()
    assert status is not None
    assert (status.state, status.driver.pid) == ("RUNNING", other_directory.pid)

    # After kill -9 no lock is left behind, and the first state directory is brought forward.
    other_directory.kill()
    world.send("named", Record(b"a", b"4", 8))
    first.start_and_wait()
    first.wait_until_caught_up()
    assert counts(world) == {b"a": 4, b"b": 1}
    assert first.stop() == 0
