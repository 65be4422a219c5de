"""An application in micro-batches, as frame functions need them: what is killed changes nothing in what it writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.task.crash_points import DIRECTORY_VARIABLE, CrashPoint
from tests.application import Application, wait_until
from tests.integration.spark.conftest import World
from tests.integration.spark.counting import Sent, arm

pytestmark = [pytest.mark.kills]
IN_THE_DRIVER = CrashPoint.DRIVER_AFTER_BATCH


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of armed crash points."""
    return tmp_path_factory.mktemp("crash-points")


@pytest.fixture(scope="module")
def application(world: World, points: Path) -> Application:
    """A count of records by key behind a frame function; each update of a count is written, in order."""
    world.create("named", "named-out", partitions=2)
    return world.application(
        "framed_counts",
        config={"statestore.cache.max.bytes": 0, "commit.interval.ms": 100},
        environment={DIRECTORY_VARIABLE: str(points)},
    )


@pytest.fixture(scope="module")
def sent(world: World, application: Application) -> Sent:
    """The running application's records."""
    application.start_and_wait()
    return Sent(world, application)


def test_frame_functions_run_in_micro_batches(sent: Sent) -> None:
    sent.send()
    sent.check()
    status = sent.application.status()
    assert status is not None
    assert status.stream_threads == []
    assert "frame functions need Spark's own source" in sent.application.log


@pytest.mark.parametrize("point", [point for point in CrashPoint if not point.startswith(("driver-", "thread-"))])
def test_a_worker_that_dies_at_any_point_loses_and_doubles_nothing(sent: Sent, points: Path, point: CrashPoint) -> None:
    arm(points, point)
    if point is CrashPoint.TASK_OPENED:
        # Only then is a task opened.
        arm(points, CrashPoint.BEFORE_PROCESSING)
    sent.send()
    wait_until(lambda: not (points / point).exists(), timeout_s=120, what=f"crash point {point}")
    sent.send()
    sent.check()
    sent.application.wait_until_running()


def test_a_driver_that_dies_behind_a_batch_goes_on_where_it_was(sent: Sent, points: Path) -> None:
    arm(points, IN_THE_DRIVER)
    sent.send()
    sent.application.wait_for_exit()
    assert not (points / IN_THE_DRIVER).exists()
    sent.send()
    sent.application.start_and_wait()
    sent.check()
    assert sent.application.stop() == 0
