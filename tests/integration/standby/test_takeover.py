"""A standby's copy that a task takes over: exact, and only the tail is replayed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

import pytest
import yaml

from millrace.install.application import Application
from millrace.install.home import Home
from millrace.operations.reset import reset
from millrace.operations.standby import Standby, StandbyOptions, StandbyStatus, read_standby_status
from millrace.spark.task_reports import TaskReporter
from millrace.spark.warm_tasks import BatchRequest, WarmTasks
from millrace.state import StateDirectory, TaskState
from millrace.task.batch import TaskBatch
from millrace.task.input import OffsetRange
from tests import prepared
from tests.application import wait_until
from tests.integration.standby.counting import MINUTE, PARTITIONS, Counting, records_of

KEYS = 200
Make = Callable[..., Counting]


def payments(count: int, *, minute: int) -> list[tuple[str, str | None, int]]:
    return [(f"k{number % KEYS}", f"v{minute}-{number}", minute * MINUTE + number % 1_000) for number in range(count)]


def copy_once(counting: Counting, state: str = "copies") -> StandbyStatus:
    options = StandbyOptions(state_dir=counting.directory / state, once=True)
    return Standby(counting.config("first"), counting.topology, options).run()


@contextmanager
def standing_by(counting: Counting, state: str = "copies") -> Iterator[Standby]:
    standby = Standby(counting.config("first"), counting.topology, StandbyOptions(state_dir=counting.directory / state))
    thread = threading.Thread(target=standby.run)
    thread.start()
    try:
        yield standby
    finally:
        standby.stop()
        thread.join(60)
        assert not thread.is_alive()


def copies_have_all(counting: Counting, standby: Standby) -> bool:
    tasks = standby.status().tasks
    return len(tasks) == PARTITIONS and all(task.lag == 0 and task.caught_up for task in tasks.values())


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_a_task_that_takes_a_copy_replays_the_tail_only_and_has_what_the_first_one_had(
    make_counting: Make, guarantee: str
) -> None:
    counting = make_counting(settings={"processing.guarantee": guarantee})
    counting.send(payments(2_000, minute=1))
    counting.process("first")
    status = copy_once(counting)
    assert status.lag in (0, None)
    counting.send(payments(300, minute=2))
    counting.process("first")

    restored = counting.process("copies")

    assert 0 < records_of(restored) <= 2 * KEYS, "counts and windows of the tail, one record a key each"
    assert {each.remaining for each in restored[-1:]} == {0}
    counting.send(payments(50, minute=2))
    counting.process("copies")
    assert counting.contents("copies") == counting.contents("whole")


def test_windows_that_expired_meanwhile_are_not_in_the_taken_copy(make_counting: Make) -> None:
    counting = make_counting()
    counting.send(payments(500, minute=1))
    counting.process("first")
    copy_once(counting)
    counting.send(payments(500, minute=30))
    counting.process("first")

    found = counting.contents("copies")

    assert found == counting.contents("whole")
    assert {start for _, start, _, _ in found["windows"]} == {30 * MINUTE}


def test_a_copy_that_is_current_needs_nothing_and_a_new_standby_goes_on_from_the_task_s_directory(
    make_counting: Make,
) -> None:
    counting = make_counting()
    counting.send(payments(500, minute=1))
    counting.process("first")
    copy_once(counting)
    assert records_of(counting.process("copies")) == 0
    counting.send(payments(500, minute=2))
    counting.process("first")
    status = copy_once(counting)
    assert 0 < sum(task.records for task in status.tasks.values()) <= 2 * KEYS
    assert records_of(counting.process("copies")) == 0
    assert counting.contents("copies") == counting.contents("whole")


def test_a_changelog_that_lost_what_the_copy_lacks_makes_it_begin_anew(make_counting: Make) -> None:
    counting = make_counting()
    counting.send(payments(500, minute=1))
    counting.process("first")
    copy_once(counting)
    counting.send(payments(1_000, minute=2))
    counting.process("first")
    counting.send(payments(500, minute=2))
    counting.process("first")
    # Of a topic that is only compacted no records can be deleted.
    topic_partitions = [(f"{counting.name}-windows-changelog", partition) for partition in range(PARTITIONS)]
    counting.admin.delete_records(dict.fromkeys(topic_partitions, 200))

    copy_once(counting)

    assert counting.contents("copies") == counting.contents("whole")


def test_a_source_topic_that_serves_as_the_changelog_is_copied_to_the_committed_offset(make_counting: Make) -> None:
    counting = make_counting(table=True)
    counting.send(payments(500, minute=1))
    counting.process("first")
    counting.send(payments(100, minute=2))
    status = copy_once(counting)
    assert sum(task.records for task in status.tasks.values()) == 500

    with standing_by(counting) as standby:
        wait_until(lambda: copies_have_all(counting, standby), timeout_s=60, what="the copies are current")
        counting.process("first")
        wait_until(
            lambda: sum(task.records for task in standby.status().tasks.values()) == 100,
            timeout_s=60,
            what="what was committed since is copied",
        )
    assert records_of(counting.process("copies")) == 0
    assert counting.contents("copies") == counting.contents("whole")


def test_a_task_replays_only_what_it_lacks_of_a_source_topic_that_serves_as_the_changelog(make_counting: Make) -> None:
    counting = make_counting(table=True)
    counting.send(payments(500, minute=1))
    counting.process("first")
    counting.send(payments(100, minute=2))
    assert records_of(counting.process("second")) == 500

    assert records_of(counting.process("first")) == 100
    assert counting.contents("first") == counting.contents("second")


def test_a_standby_brings_the_table_of_a_task_forward_that_a_source_topic_restores(make_counting: Make) -> None:
    counting = make_counting(table=True)
    counting.send(payments(500, minute=1))
    counting.process("copies")
    counting.send(payments(100, minute=2))
    counting.process("first")

    status = copy_once(counting)

    assert sum(task.records for task in status.tasks.values()) == 100
    assert records_of(counting.process("copies")) == 0
    assert counting.contents("copies") == counting.contents("whole")


def test_a_standby_follows_and_gives_a_copy_to_the_worker_that_asks(make_counting: Make) -> None:
    counting = make_counting()
    counting.send(payments(500, minute=1))
    counting.process("first")
    with standing_by_in_a_process(counting) as process:
        wait_until(lambda: published_lag(counting) == 0, timeout_s=120, what="the copies are current")
        counting.send(payments(500, minute=2))
        counting.process("first")
        wait_until(
            lambda: published_records(counting) >= 4 * KEYS and published_lag(counting) == 0,
            timeout_s=60,
            what="the copies follow",
        )
        plan = counting.plan("copies")
        topic_partition = (counting.topic, 0)
        request = BatchRequest(plan.to_bytes(), 0, TaskBatch([], {topic_partition: OffsetRange(0, 0, 0)}))
        warm = WarmTasks()
        outcome = warm.run(request, TaskReporter("", "0_0"))
        assert outcome.restored == 0
        assert process.is_alive()
        warm._release_standbys(plan.task_spec(0).state_directory)
    assert process.exitcode == 0
    assert counting.contents("copies") == counting.contents("whole")


@pytest.mark.kills
def test_a_standby_that_is_killed_again_and_again_leaves_exact_copies(make_counting: Make) -> None:
    counting = make_counting()
    random = Random(7)
    for turn in range(4):
        counting.send(payments(3_000, minute=1 + turn))
        counting.process("first")
        with standing_by_in_a_process(counting) as process:
            wait_until(
                partial(has_copied, counting, random.randrange(1, 4 * KEYS), process.pid),
                timeout_s=120,
                what="it copies",
            )
            process.kill()
            process.join(20)
    copy_once(counting)
    assert records_of(counting.process("copies")) == 0
    assert counting.contents("copies") == counting.contents("whole")


@contextmanager
def standing_by_in_a_process(counting: Counting) -> Iterator[BaseProcess]:
    specification = counting.directory / f"{counting.name}.yaml"
    config = counting.config("first").to_mapping()
    document = {"name": counting.name, "module": "tests.integration.standby.counting:build", "config": config}
    specification.write_text(yaml.safe_dump(document))
    command = ("standby", str(specification), "--state-dir", str(counting.directory / "copies"))
    log = counting.directory / "standby.log"
    process = prepared.start(prepared.millrace, *command, environment={}, log=log)
    try:
        yield process
    finally:
        process.terminate()
        process.join(60)
        process.kill()


def published(counting: Counting) -> StandbyStatus | None:
    return read_standby_status(counting.directory / "copies", counting.name)


def published_lag(counting: Counting) -> int | None:
    status = published(counting)
    return status.lag if status is not None and len(status.tasks) == PARTITIONS else None


def has_copied(counting: Counting, records: int, pid: int | None) -> bool:
    return published_records(counting, pid) >= min(records, 2 * KEYS)


def published_records(counting: Counting, pid: int | None = None) -> int:
    status = published(counting)
    if status is None or pid not in (None, status.pid):
        return 0
    return sum(task.records for task in status.tasks.values())


def test_the_position_of_a_copy_says_what_it_is(make_counting: Make) -> None:
    counting = make_counting()
    counting.send(payments(10, minute=1))
    counting.process("first")
    copy_once(counting)
    directory: Path = StateDirectory(counting.directory / "copies").task(counting.name, 0, 0)
    state = TaskState.open(directory, counting.topology.sub_topologies[0].stores)
    assert state.position.standby
    assert state.position.inputs == {}
    assert set(state.position.changelogs) == {"counts", "windows"}
    state.close()


def run_of_copy(counting: Counting, state: str = "copies") -> int:
    directory = StateDirectory(counting.directory / state).task(counting.name, 0, 0)
    opened = TaskState.open(directory, counting.topology.sub_topologies[0].stores)
    try:
        return opened.position.run_id
    finally:
        opened.close()


def least_run(standby: Standby) -> int:
    return min((task.run for task in standby.status().tasks.values()), default=0)


def reset_as_launched(counting: Counting) -> None:
    home = Home(counting.directory / "home", counting.directory / "specs")
    path = home.spec_path(counting.name)
    path.parent.mkdir(parents=True)
    config = counting.config("first").to_mapping()
    document = {"name": counting.name, "module": "tests.integration.standby.counting:build", "config": config}
    path.write_text(yaml.safe_dump(document))
    reset(Application(home, counting.name))


def test_a_copy_made_after_a_reset_is_taken_and_one_from_before_is_not(make_counting: Make) -> None:
    """Also by a standby that runs on over the reset."""
    counting = make_counting()
    counting.send(payments(500, minute=1))
    counting.process("first")
    copy_once(counting, "old")
    before = run_of_copy(counting, "old")
    assert before > 0

    with standing_by(counting) as standby:
        wait_until(lambda: copies_have_all(counting, standby), timeout_s=60, what="the copies are current")
        reset_as_launched(counting)
        counting.send(payments(100, minute=2))
        counting.process("first")
        assert counting.contents("first") == counting.contents("whole")
        wait_until(
            lambda: least_run(standby) > before and copies_have_all(counting, standby),
            timeout_s=60,
            what="the copies are current again",
        )
    assert run_of_copy(counting) > before
    assert records_of(counting.process("copies")) == 0
    assert records_of(counting.process("old")) > 0
    assert counting.contents("copies") == counting.contents("old") == counting.contents("whole")
