"""The failure matrix, row by row, over one application under load; the order of the tests is that of the drills.

The executor's row is recorded by ``tests/chaos/test_exactly_once.py``, which has a Spark cluster.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import pytest

from millrace.driver.driver_options import ExitCode
from millrace.embedded.broker import EmbeddedBroker
from tests.application import PREFIX_VARIABLE
from tests.chaos.checker import check_output, check_stores
from tests.chaos.drills.observing import Observer
from tests.chaos.drills.results import Result
from tests.chaos.drills.world import PARTITIONS, Drilled
from tests.chaos.kills import processes_of

pytestmark = pytest.mark.long(
    "each row of the failure matrix with a recovery; test_exactly_once.py has the kills of a cluster"
)


@pytest.fixture(scope="module")
def drilled(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drilled]:
    """The application at work; each drill leaves it so for the next one."""
    prefix = f"d{uuid4().hex[:8]}"
    directory = tmp_path_factory.mktemp("drills")
    points = directory / "points"
    points.mkdir()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(PREFIX_VARIABLE, prefix)  # the checker builds the same topology as the driver
        made = Drilled(broker, prefix, directory, points)
        try:
            made.start()
            yield made
        finally:
            made.close()
            for process in processes_of(points):
                process.kill()


def test_a_dead_worker_is_replaced(drilled: Drilled) -> None:
    def threads() -> set[str]:
        status = drilled.application.status()
        assert status is not None
        return {each.worker for each in status.stream_threads}

    before = threads()
    drilled.goes_on("worker", drilled.kill_worker)
    after = threads()
    assert len(after) == len(before)
    assert len(after - before) == 1


def test_b01_all_tasks_move_at_once_and_go_on_in_order(drilled: Drilled) -> None:
    """Case B01 under exactly once: the check of the output at the end finds a gap, a repeat or an inversion."""

    def move_twice() -> None:
        for _ in range(2):
            drilled.kill_workers()
            drilled.wait_until_committed()

    drilled.goes_on("move", move_twice)


def test_a_lost_checkpoint_directory_costs_nothing(drilled: Drilled) -> None:
    result = drilled.goes_on("checkpoint", drilled.remove_checkpoints)
    assert set(result.states) == {"RUNNING"}
    assert "millrace_stream_query_restarts_total" not in result.metrics


def test_corrupted_stores_are_restored_from_their_changelogs(drilled: Drilled) -> None:
    result = drilled.goes_on(
        "store",
        drilled.corrupt_stores,
        also=lambda: drilled.application.metric("millrace_stream_task_state_rebuilds_total") >= 1,
    )
    assert result.metrics["millrace_stream_task_restore_records_total"] >= 1


def test_a_restarted_broker_is_waited_for(drilled: Drilled) -> None:
    drilled.goes_on("broker-restart", drilled.restart_broker)


def test_a_broker_that_hangs_for_longer_than_a_transaction_may_last_is_waited_for(drilled: Drilled) -> None:
    drilled.goes_on("broker-unreachable", drilled.hide_broker)


def test_a_dead_driver_is_followed_by_another(drilled: Drilled) -> None:
    result = drilled.goes_on("driver", drilled.kill_driver)
    assert result.metrics["millrace_stream_driver_epoch"] == 1


def test_of_two_drivers_the_newer_one_goes_on(drilled: Drilled) -> None:
    older, newer = drilled.application, drilled.second()
    with Observer(older) as observer:
        begin = time.monotonic()
        observer.follow(newer)
        newer.start()
        assert older.wait_for_exit() == ExitCode.FENCED
        drilled.application = newer
        drilled.wait_until_committed()
        newer.wait_until_running()
        seconds = time.monotonic() - begin
    assert "newer driver" in older.log
    drilled.keep(
        Result(
            key="two-drivers",
            seconds=seconds,
            by_itself=True,
            states=tuple(observer.states),
            metrics=observer.metrics(),
            reason="A newer driver of my-app took over (in the log of the older one, which ends with exit code 3).",
            remedy="nothing, if the newer one is meant",
        )
    )


def test_a_lost_disk_is_restored_from_the_changelogs(drilled: Drilled) -> None:
    def lose_and_start() -> None:
        drilled.lose_disk()
        drilled.application.start()

    result = drilled.goes_on("disk", lose_and_start)
    assert result.metrics["millrace_stream_task_restore_records_total"] > 100


def test_offsets_moved_by_hand_are_noticed_and_can_be_put_back(drilled: Drilled) -> None:
    def pause_and_move() -> None:
        assert drilled.application.post("pause").is_success
        drilled.move_offsets()

    result = drilled.stops("offsets", pause_and_move)
    assert "Another client committed offsets" in result.reason
    assert "millrace take-over" in result.remedy
    begin = time.monotonic()
    drilled.put_offsets_back()
    assert check_stores(drilled.application, drilled.committed())
    drilled.start_application()
    drilled.wait_until_committed()
    applied = "the offsets of the status topic were put back and signed with `millrace take-over`; then it was started"
    drilled.keep(replace(result, applied=applied, seconds_after=time.monotonic() - begin))


def test_everything_so_far_has_left_output_exact(drilled: Drilled) -> None:
    sent = drilled.load.stop()
    drilled.application.wait_until_caught_up(timeout_s=120)
    expected = check_output(drilled.broker.bootstrap_servers, drilled.prefix, sent=sent)
    assert expected.late


def test_a_deleted_changelog_stops_the_application_until_it_is_reset(drilled: Drilled) -> None:
    changelog = f"{drilled.application.application_id}-running-changelog"
    result = drilled.stops("changelog", lambda: drilled.admin.delete_topics([changelog]))
    assert "running-changelog" in result.reason
    assert "reset the application" in result.remedy
    assert "is gone" in drilled.refused()
    assert not drilled.admin.describe_topics([changelog])
    begin = time.monotonic()
    drilled.reset()
    drilled.start_application()
    drilled.application.wait_until_caught_up(timeout_s=120)
    applied = "`millrace reset --output-topics ...` and a start, which processed the whole input again"
    drilled.keep(replace(result, applied=applied, seconds_after=time.monotonic() - begin))
    check_output(drilled.broker.bootstrap_servers, drilled.prefix, sent=drilled.load.sent)


def test_new_partitions_of_the_input_stop_the_application_until_it_is_reset(drilled: Drilled) -> None:
    result = drilled.stops("partitions", lambda: drilled.admin.add_partitions(f"{drilled.prefix}-in", PARTITIONS + 1))
    assert "in-2" in result.reason
    assert "reset the application" in result.remedy
    assert check_stores(drilled.application, drilled.committed())
    begin = time.monotonic()
    drilled.reset()
    drilled.start_application()
    drilled.application.wait_until_caught_up(timeout_s=120)
    applied = (
        "`millrace reset --output-topics ...` and a start, which made the internal topics again with three partitions"
    )
    drilled.keep(replace(result, applied=applied, seconds_after=time.monotonic() - begin))
    check_output(drilled.broker.bootstrap_servers, drilled.prefix, sent=drilled.load.sent)
    assert drilled.application.stop() == 0
