"""Savepoints of a stopped application: what waits between sub-topologies, kills at every step, clones."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from millrace.errors import MillraceError, OperationError, StateDirectoryLockedError, StateError, TopologyError
from millrace.install.application import Application
from millrace.operations import resume, unfinished_operation
from millrace.operations.savepoints import (
    SavepointState,
    create_savepoint,
    delete_savepoint,
    list_savepoints,
    restore_savepoint,
    show_savepoint,
    verify_savepoint,
)
from millrace.state import DirectoryLock, StateDirectory
from tests.integration.savepoints.conftest import OUTPUTS, Installation

CREATE_STEPS = ("begin", "checkpoint", "copy", "complete")
RESTORE_STEPS = ("fence", "fetch", "topics", "changelogs", "purge", "waiting", "install", "offsets", "check")


def state_of(world: Installation, name: str) -> Path:
    return StateDirectory(world.home.root / "state").application(name)


@pytest.fixture
def application(world: Installation) -> str:
    """200 records are counted, and 100 more by key only: for the buckets they wait in the repartition topic."""
    name = world.specify()
    world.send(200)
    world.run(name)
    world.send(100)
    world.run(name, only=(0,))
    return name


def test_what_waits_between_sub_topologies_belongs_to_the_savepoint(world: Installation, application: str) -> None:
    create_savepoint(Application(world.home, application), name="one")
    point = show_savepoint(Application(world.home, application), "one").point
    assert point is not None
    assert sum(each.records for each in point.waiting) == 100
    world.send(50)
    world.run(application)
    restore_savepoint(Application(world.home, application), "one")
    assert sum(world.run(application).values()) == 0, "the stores were installed, nothing is replayed"
    world.send(50)
    world.run(application)
    world.check_outputs()


def test_the_changelogs_alone_bring_the_savepoint_back(world: Installation, application: str) -> None:
    """Also where windows had expired, and keys had been added, since."""
    create_savepoint(Application(world.home, application), name="one")
    world.send(3_000, keys=70)
    world.run(application)
    restore_savepoint(Application(world.home, application), "one")
    shutil.rmtree(state_of(world, application))
    settings = world.admin.topic_settings(f"{application}-by-key-changelog")
    assert settings["cleanup.policy"] == "compact"
    assert "retention.ms" not in world.admin.own_topic_settings(f"{application}-by-key-changelog")
    assert sum(world.run(application).values()) > 0
    world.check_outputs()


@pytest.mark.kills
def test_a_savepoint_that_was_killed_at_every_step_is_complete_once_it_was_resumed(
    world: Installation, application: str
) -> None:
    create = ("savepoint", "create", application, "--name", "one")
    world.killed_at_every_step("savepoint", CREATE_STEPS, application, *create)
    assert unfinished_operation(world.home.application(application)) is not None
    resume(Application(world.home, application))
    verify_savepoint(Application(world.home, application), "one")
    assert {each.state for each in list_savepoints(Application(world.home, application))} == {SavepointState.COMPLETED}
    world.run(application)
    restore_savepoint(Application(world.home, application), "one")
    world.run(application)
    world.check_outputs()


@pytest.mark.kills
def test_a_restoration_that_was_killed_at_every_step_gives_the_savepoint_back_once_it_was_resumed(
    world: Installation, application: str
) -> None:
    create_savepoint(Application(world.home, application), name="one")
    world.send(40)
    world.run(application)
    world.killed_at_every_step("restore", RESTORE_STEPS, application, "savepoint", "restore", application, "one")
    resume(Application(world.home, application))
    world.run(application)
    world.check_outputs()


def test_a_clone_has_its_own_group_topics_and_state(
    world: Installation, application: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_savepoint(Application(world.home, application), name="one")
    clone = world.specify("clone", clone=True)
    with pytest.raises(OperationError, match="would write to the topics"):
        restore_savepoint(Application(world.home, application), "one", into=clone)
    world.clone_writes_elsewhere(monkeypatch)
    restore_savepoint(Application(world.home, application), "one", into=clone)
    world.send(30)
    world.run(clone)
    for output in OUTPUTS:
        found, expected = world.last_counts(f"clone-{output}"), world.expected(output)
        assert found.items() <= expected.items(), output
    assert world.last_counts("clone-by-bucket") == world.expected("by-bucket")
    world.original_writes_again(monkeypatch)
    world.run(application)
    world.check_outputs()


def test_the_second_savepoint_copies_only_what_is_new_and_survives_the_first(
    world: Installation, application: str
) -> None:
    create_savepoint(Application(world.home, application), name="one")
    again = create_savepoint(Application(world.home, application), name="two").results["complete"]
    assert again["copied_bytes"] < again["bytes"] / 2
    delete_savepoint(Application(world.home, application), "one")
    verify_savepoint(Application(world.home, application), "two")
    assert [each.name for each in list_savepoints(Application(world.home, application))] == ["two"]


def test_stores_in_memory_and_of_the_users_own_come_back(world: Installation) -> None:
    name = world.specify(module="counting_elsewhere")
    world.send(200)
    world.run(name)
    create_savepoint(Application(world.home, name), name="one")
    world.send(100, keys=70)
    world.run(name)
    restore_savepoint(Application(world.home, name), "one")
    world.run(name)
    for output in ("by-key", "by-window"):
        assert world.last_counts(output) == world.expected("by-key"), output


def test_a_damaged_file_is_found_before_anything_is_changed(world: Installation, application: str) -> None:
    create_savepoint(Application(world.home, application), name="one")
    largest = max(show_savepoint(Application(world.home, application), "one").files, key=lambda file: file.size)
    (path,) = (world.home.root / "savepoints").rglob(largest.sha256)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(OperationError, match=f"content of {largest.path} is damaged"):
        verify_savepoint(Application(world.home, application), "one")
    with pytest.raises(OperationError, match="damaged"):
        restore_savepoint(Application(world.home, application), "one")


def test_a_topology_that_does_not_fit_is_refused_and_the_stores_are_named(
    world: Installation, application: str
) -> None:
    """Case S13."""
    create_savepoint(Application(world.home, application), name="one")
    world.specify(module="counting_without_windows")
    with pytest.raises(TopologyError, match="by-window"):
        restore_savepoint(Application(world.home, application), "one")
    restore_savepoint(Application(world.home, application), "one", allow_dropped_stores=["by-window"])
    world.run(application)
    for output in ("by-key", "by-bucket"):
        assert world.last_counts(output) == world.expected(output)


def test_a_running_application_is_neither_restored_nor_read_as_a_stopped_one(
    world: Installation, application: str
) -> None:
    create_savepoint(Application(world.home, application), name="one")
    lock = DirectoryLock(state_of(world, application))
    try:
        with pytest.raises(StateDirectoryLockedError):
            create_savepoint(Application(world.home, application), name="two")
        failed = show_savepoint(Application(world.home, application), "two")
        assert failed.state is SavepointState.FAILED
        assert "in use" in failed.reason
        with pytest.raises(StateDirectoryLockedError):
            restore_savepoint(Application(world.home, application), "one")
    finally:
        lock.release()
    resume(Application(world.home, application))
    world.run(application)
    world.check_outputs()


def test_input_that_is_gone_is_named(world: Installation, application: str) -> None:
    create_savepoint(Application(world.home, application), name="one")
    world.send(100)
    topic_partition = (f"{world.prefix}-in", 0)
    world.admin.delete_records({topic_partition: -1})
    with pytest.raises(StateError, match=rf"{topic_partition[0]}-0 has offsets \d+ to \d+, not"):
        restore_savepoint(Application(world.home, application), "one")


def test_names_are_checked(world: Installation, application: str) -> None:
    create_savepoint(Application(world.home, application), name="one")
    with pytest.raises(OperationError, match="has a savepoint one already"):
        create_savepoint(Application(world.home, application), name="one")
    with pytest.raises(MillraceError, match="no name of a savepoint"):
        show_savepoint(Application(world.home, application), "../one")
    with pytest.raises(OperationError, match="has no savepoint two"):
        restore_savepoint(Application(world.home, application), "two")
