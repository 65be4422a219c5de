"""A savepoint restored to another number of partitions: rows go where their keys go."""

from __future__ import annotations

import pytest

from millrace.errors import OperationError, StateError
from millrace.install.application import Application
from millrace.operations import resume
from millrace.operations.savepoints import create_savepoint, restore_savepoint
from tests.integration.savepoints.conftest import Installation


@pytest.fixture
def application(world: Installation) -> str:
    """All input is processed; for the buckets 100 records wait in the repartition topic."""
    name = world.specify()
    world.send(300)
    world.run(name)
    world.send(100)
    world.run(name, only=(0,))
    return name


def grow(world: Installation) -> None:
    world.admin.add_partitions(f"{world.prefix}-in", 5)


@pytest.mark.kills
def test_the_input_grew_and_every_record_counts_once(world: Installation, application: str) -> None:
    create_savepoint(Application(world.home, application), name="one")
    grow(world)
    world.send(200, keys=80)
    plan = restore_savepoint(Application(world.home, application), "one", dry_run=True)
    assert any(f"Delete {application}-by-key-changelog" in step for step in plan.steps)
    restore = ("savepoint", "restore", application, "one")
    world.killed_at_every_step("restore", ("topics", "changelogs", "waiting", "install"), application, *restore)
    resume(Application(world.home, application))
    assert sum(world.run(application).values()) > 0
    world.send(100, keys=80)
    world.run(application)
    world.check_outputs()


def test_what_was_not_drained_is_refused(world: Installation, application: str) -> None:
    world.send(10)
    create_savepoint(Application(world.home, application), name="one")
    grow(world)
    with pytest.raises(StateError, match="not drained"):
        restore_savepoint(Application(world.home, application), "one")


def test_records_that_came_before_the_topic_grew_are_found(world: Installation, application: str) -> None:
    create_savepoint(Application(world.home, application), name="one")
    world.send(10)
    grow(world)
    with pytest.raises(StateError, match=r"has a record at \d+ that belongs to partition \d"):
        restore_savepoint(Application(world.home, application), "one")


def test_another_input_topic_needs_to_be_told_where_it_starts(
    world: Installation, application: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_savepoint(Application(world.home, application), name="one")
    new = world.other_input(monkeypatch, partitions=3)
    with pytest.raises(OperationError, match=f"does not say where {new}-0 starts"):
        restore_savepoint(Application(world.home, application), "one")
    world.send(5)
    restore_savepoint(Application(world.home, application), "one", starts=[f"{new}=earliest"])
    world.send(100)
    world.run(application)
    world.check_outputs()
