"""Records and disks that end an application: the reason and the remedy, and that nothing of the batch is visible.

The three applications start side by side.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator

import psutil
import pytest

from tests.application import Application
from tests.integration.spark.conftest import World
from tests.records import Record

LIMIT = 1_048_588 + 65_536
"""Of an internal topic: what inputs may have by default, and what a store adds to it."""


class Three:
    """An application for each way to fail, each in a world of its own topics."""

    def __init__(self, worlds: dict[str, World], applications: dict[str, Application]) -> None:
        self.worlds = worlds
        self.applications = applications

    def fail(self, name: str) -> tuple[World, Application, str, str]:
        """Waits for the application's end; its world, itself, the reason and the remedy."""
        application = self.applications[name]
        assert application.wait_for_exit(90) == 1
        status = application.published_status()
        assert status is not None
        assert status.state == "ERROR"
        assert status.remedy
        return self.worlds[name], application, status.reason, status.remedy


@pytest.fixture(scope="module")
def three(bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    worlds: dict[str, World] = {}
    applications: dict[str, Application] = {}
    for name, function in (("poison", "parsing"), ("large", "collecting"), ("disk", "latest")):
        prefix = f"{name}-{tmp_path_factory.getbasetemp().name}-{id(worlds):x}"
        worlds[name] = World(bootstrap_servers, prefix, tmp_path_factory.mktemp(name))
        worlds[name].create("in", "out")
        applications[name] = worlds[name].application(function).start()
    try:
        for application in applications.values():
            application.wait_until_running(180)
        yield Three(worlds, applications)
    finally:
        for world in worlds.values():
            world.close()


def test_a_poison_message_under_fail_ends_it_and_commits_nothing(three: Three) -> None:
    three.worlds["poison"].send("in", Record(b"k", b'{"group":"g","at":1}', 5), Record(b"k", b"{{", 6))
    world, application, reason, remedy = three.fail("poison")

    assert f"{world.name('in')}-0 offset 1" in reason
    assert "deserialization.exception.handler" in remedy
    assert application.committed()[world.name("in"), 0] == 0
    assert world.read("out") == []


def test_a_value_that_outgrows_its_changelog_ends_it_and_leaves_no_trace(three: Three) -> None:
    """Case P03: the eleventh value makes the list larger than the broker takes."""
    world, application = three.worlds["large"], three.applications["large"]
    value = b"x" * 102_400
    world.send("in", *(Record(b"k", value, 5) for _ in range(9)))
    application.wait_until_caught_up()
    before = world.read("out"), world.read_any(f"{application.application_id}-lists-changelog")
    world.send("in", *(Record(b"k", value, 5) for _ in range(3)))
    _, _, reason, remedy = three.fail("large")

    assert f"{application.application_id}-lists-changelog" in reason
    assert "b'k'" in reason
    assert str(LIMIT) in reason
    assert "max.message.bytes" in remedy
    assert application.committed()[world.name("in"), 0] == 9
    out, changelog = world.read("out"), world.read_any(f"{application.application_id}-lists-changelog")
    assert [(r.key, r.value) for r in out] == [(r.key, r.value) for r in before[0]]
    # The broker may have compacted the changelog meanwhile; what it adds or changes would show at the end.
    assert [(r.key, r.value) for r in changelog[-1:]] == [(r.key, r.value) for r in before[1][-1:]]
    assert {r.value for r in changelog} <= {r.value for r in before[1]}


def test_a_full_disk_ends_it_and_nothing_is_lost(three: Three) -> None:
    """The workers may not write files above 4 MiB, which a write-ahead log soon is."""
    world, application = three.worlds["disk"], three.applications["disk"]
    world.send("in", Record(b"first", b"1", 5))
    application.wait_until_caught_up()
    for process in application.session():
        if "python_daemon" in " ".join(process.cmdline()):
            process.rlimit(psutil.RLIMIT_FSIZE, (4 << 20, resource.RLIM_INFINITY))
    values = [f"{number}-".encode() + b"x" * 100_000 for number in range(100)]
    world.send("in", *(Record(f"k{number}".encode(), value, 5) for number, value in enumerate(values)))
    _, _, reason, remedy = three.fail("disk")

    assert str(application.state_directory) in reason
    assert "free space" in remedy
    application.start_and_wait()
    application.wait_until_caught_up()
    latest = {record.key: record.value for record in world.read("out")}
    assert latest == {b"first": b"1", **{f"k{number}".encode(): value for number, value in enumerate(values)}}
    world.send("in", Record(b"last", b"2", 5))
    application.wait_until_caught_up()
    assert application.stop() == 0
