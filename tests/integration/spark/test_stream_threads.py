"""An application on stream threads: what is killed, paused or handed over changes nothing in what it writes."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path

import httpx
import psutil
import pytest

from millrace.driver.task_databases import LINK_DATABASES
from millrace.task.crash_points import DIRECTORY_VARIABLE, CrashPoint
from tests.application import Application, wait_until
from tests.integration.spark.conftest import World
from tests.integration.spark.counting import Sent, arm
from tests.records import Record


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of armed crash points."""
    return tmp_path_factory.mktemp("crash-points")


@pytest.fixture(scope="module")
def application(world: World, points: Path) -> Application:
    """A count of records by key, on two stream threads; each update of a count is written, in order."""
    world.create("named", "named-out", partitions=4)
    return world.application(
        "explicit_names",
        config={
            "processing.engine": "stream-threads",
            "statestore.cache.max.bytes": 0,
            "commit.interval.ms": 100,
        },
        environment={DIRECTORY_VARIABLE: str(points)},
    )


@pytest.fixture(scope="module")
def sent(world: World, application: Application) -> Sent:
    """The running application's records."""
    application.start_and_wait()
    return Sent(world, application)


def test_records_are_counted_once_and_every_task_has_one_of_the_threads(sent: Sent) -> None:
    sent.send()
    sent.check()
    status = sent.application.status()
    assert status is not None
    assert set(status.task_hosts) == {f"{number}_{partition}" for number in range(2) for partition in range(4)}
    assert has_even_threads(sent.application)
    assert {each.lag for each in status.progress.values()} == {0}


def has_even_threads(application: Application) -> bool:
    """Whether each of the two threads has opened four of the eight tasks."""
    status = application.status()
    if status is None:
        return False
    states = {state for progress in status.progress.values() for state in progress.task_states.values()}
    return states == {"RUNNING"} and list(Counter(status.task_hosts.values()).values()) == [4, 4]


IDLE_S = 8.0
MOST_IDLE_SHARE = 0.1
"""Of one core, by all its processes; 0.03 were measured on a quiet machine."""


def test_an_idle_application_computes_almost_nothing(sent: Sent) -> None:
    sent.check()
    before = computed(sent.application)
    time.sleep(IDLE_S)
    assert computed(sent.application) - before < MOST_IDLE_SHARE * IDLE_S


def computed(application: Application) -> float:
    """Seconds that the processes of an application have computed."""
    times = [process.cpu_times() for process in application.session()]
    return sum(each.user + each.system for each in times)


POINTS = [
    point
    for point in CrashPoint
    # No command is given here, and a task is handed over only where a thread comes late: see below.
    if not point.startswith("driver-") and point not in (CrashPoint.THREAD_COMMANDED, CrashPoint.THREAD_RELEASES)
]


@pytest.mark.kills
@pytest.mark.parametrize("point", POINTS)
def test_a_thread_that_dies_at_any_point_loses_and_doubles_nothing(sent: Sent, points: Path, point: CrashPoint) -> None:
    arm(points, point)
    if point in (CrashPoint.TASK_OPENED, CrashPoint.THREAD_ASSIGNED):
        # Only then is a task assigned and opened.
        os.kill(sent.application.workers()[0], signal.SIGKILL)
    sent.send()
    wait_until(lambda: not (points / point).exists(), timeout_s=60, what=f"crash point {point}")
    sent.send()
    sent.check()
    sent.application.wait_until_running()


@pytest.mark.kills
def test_a_thread_that_hangs_loses_its_tasks_to_the_other_which_dies_as_it_gives_them_back(
    sent: Sent, points: Path
) -> None:
    # A thread that hangs before it has opened a task holds no directory, and would not be ended.
    wait_until(lambda: has_even_threads(sent.application), timeout_s=60, what="tasks on both threads")
    sleeper = psutil.Process(sent.application.workers()[0])
    sleeper.suspend()
    arm(points, CrashPoint.THREAD_RELEASES)
    sent.send()
    # Nothing is heard of it, so its tasks are fenced; whoever gets them ends it, since it has their directories. Spark
    # starts the thread again, which is given tasks of the other one.
    wait_until(lambda: not (points / CrashPoint.THREAD_RELEASES).exists(), timeout_s=120, what="a hand-over")
    sent.send()
    sent.check()
    assert not sleeper.is_running()
    sent.application.wait_until_running()


@pytest.mark.kills
def test_a_killed_driver_goes_on_where_it_was(sent: Sent) -> None:
    sent.send()
    sent.application.kill()
    sent.send()
    sent.application.start_and_wait()
    sent.check()


def test_nothing_is_processed_while_it_is_paused(sent: Sent, world: World) -> None:
    sent.check()
    assert sent.application.post("pause").status_code < 300
    before = len(world.read("named-out"))
    sent.send()
    status = sent.application.status()
    assert status is not None
    assert status.paused
    assert len(world.read("named-out")) == before
    assert sent.application.post("resume").status_code < 300
    sent.check()


def links(application: Application, directory: Path) -> httpx.Response:
    """Asks the driver to have every task link its database."""
    token = (application.run_directory / "control.token").read_text().strip()
    return httpx.post(
        f"{application.control_address()}/operations/{LINK_DATABASES}",
        json={"directory": str(directory)},
        headers={"Authorization": f"Bearer {token}"},
    )


@pytest.mark.kills
def test_tasks_do_what_they_are_asked_between_two_commits_and_a_thread_that_dies_of_it_is_told(
    sent: Sent, points: Path
) -> None:
    sent.check()
    directory = sent.application.state_directory / "links"
    done = links(sent.application, directory / "first")
    assert done.status_code == 200
    # Those of the second sub-topology have a store.
    linked = {task for task, answer in done.json()["tasks"].items() if answer["directory"] is not None}
    assert (
        linked
        == {f"1_{partition}" for partition in range(4)}
        == {path.name for path in (directory / "first").iterdir()}
    )

    arm(points, CrashPoint.THREAD_COMMANDED)
    failed = links(sent.application, directory / "second")
    assert failed.status_code == 409
    assert "went away" in failed.json()["error"]
    sent.send()
    sent.check()
    sent.application.wait_until_running()
    assert links(sent.application, directory / "third").status_code == 200


def test_a_stop_ends_every_process_and_a_start_goes_on(sent: Sent) -> None:
    sent.send()
    workers = sent.application.workers()
    assert sent.application.stop() == 0
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in workers), timeout_s=30, what="end of the workers")
    sent.send()
    sent.application.start_and_wait()
    sent.check()
    assert sent.application.stop() == 0


def test_it_goes_on_in_micro_batches_and_back_on_stream_threads(sent: Sent) -> None:
    """Upgraded in place and back: the same offsets, stores and topics."""
    for engine in ("micro-batches", "stream-threads"):
        sent.application.config["processing.engine"] = engine
        sent.send()
        sent.application.start_and_wait()
        status = sent.application.status()
        assert status is not None
        assert bool(status.stream_threads) == (engine == "stream-threads")
        sent.check()
        # Its stores are where the other engine left them.
        assert sent.application.metric("millrace_stream_task_restore_records_total") == 0
        assert sent.application.stop() == 0


def test_a_new_partition_is_read_from_its_first_record_by_the_next_epoch(world: World) -> None:
    world.create("in", "out")
    copying = world.application(
        "copying", "copying", config={"processing.engine": "stream-threads", "query.restart.backoff.ms": 100}
    ).start_and_wait()
    world.send("in", Record(b"a", b"1", partition=0))
    copying.wait_until_caught_up()
    world.admin.add_partitions(world.name("in"), 3)
    world.send("in", *[Record(b"a", b"2", partition=number) for number in range(3)])
    topic_partition = (world.name("in"), 2)
    wait_until(
        lambda: copying.committed().get(topic_partition) == 1, timeout_s=120, what="the record of a new partition"
    )
    copying.wait_until_running()
    copying.wait_until_caught_up()
    assert sorted(record.value or b"" for record in world.read("out")) == [b"1", b"2", b"2", b"2"]
    assert copying.stop() == 0
