"""Exactly once on a Spark cluster: every crash point, and kills at random moments, while records keep coming."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millrace.embedded.broker import EmbeddedBroker
from millrace.install.launchers.spark_cluster import SparkCluster
from millrace.task.crash_points import DIRECTORY_VARIABLE, CrashPoint
from tests.application import PREFIX_VARIABLE, SEARCH_PATH, Application
from tests.chaos.checker import check_everything_is_committed, check_output, check_stores
from tests.chaos.drills.observing import Observer
from tests.chaos.drills.results import Result, record
from tests.chaos.kills import Chaos
from tests.chaos.load import SteadyLoad

POINTS_OF_A_TASK = [point for point in CrashPoint if not point.startswith(("driver-", "thread-"))]
POINTS_OF_A_THREAD = [CrashPoint.THREAD_ASSIGNED, CrashPoint.THREAD_REPORTS]

SLOWER_WITH_OPEN_TRANSACTION_S = 10.0
"""A start that meets a transaction with sent offsets may take this much longer than one that does not; waiting for the
broker to time the transaction out would take a minute."""


@pytest.fixture
def cluster(tmp_path: Path, points: Path, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkCluster]:
    """Two workers with one executor each, whose Python workers find the tests' modules and the crash points."""
    monkeypatch.setenv("PYTHONPATH", SEARCH_PATH)
    monkeypatch.setenv(PREFIX_VARIABLE, prefix)
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(points))
    with SparkCluster(tmp_path / "cluster", workers=2, cores=1, memory="1g") as started:
        yield started


POINTS = {"micro-batches": POINTS_OF_A_TASK, "stream-threads": [*POINTS_OF_A_TASK, *POINTS_OF_A_THREAD]}
WHERE_A_TASK_BEGINS = {CrashPoint.TASK_OPENED, CrashPoint.THREAD_ASSIGNED}


@pytest.mark.parametrize(
    "engine",
    [
        "stream-threads",
        pytest.param(
            "micro-batches",
            marks=pytest.mark.long("integration/spark/test_killed_batches.py kills them with a local master"),
        ),
    ],
)
def test_output_and_stores_are_exact_whatever_is_killed(
    engine: str,
    broker: EmbeddedBroker,
    prefix: str,
    cluster: SparkCluster,
    make_killable: Callable[..., Application],
    chaos_for: Callable[[Application], Chaos],
) -> None:
    """Every named crash point; workers, an executor, the driver and the broker by chance; a holder that is stopped."""
    launcher = {"kind": "standalone", "master": cluster.master, "executor_memory": "700m", "driver_memory": "700m"}
    application = make_killable(launcher=launcher, config={"processing.engine": engine}).start_and_wait()
    chaos = chaos_for(application)
    with SteadyLoad(broker.bootstrap_servers, f"{prefix}-in") as load:
        chaos.recovered("nothing: first records")
        for point in POINTS[engine]:
            if point in WHERE_A_TASK_BEGINS:
                chaos.kill_worker(seconds_from_now=0)  # only then is a task assigned and opened
            chaos.die_at(point)
            chaos.recovered(f"worker at {point}")
        chance = random.Random(11)
        for number in range(2):
            chaos.kill_worker(seconds_from_now=chance.uniform(0.1, 1.0))
            chaos.recovered(f"worker at random ({number})")
        chaos.kill_executor()
        chaos.recovered("executor")
        holder = chaos.stop_a_worker_at(CrashPoint.INSIDE_TRANSACTION)
        with Observer(application) as observer:
            chaos.kill_executor_of(holder)
            seconds = chaos.recovered("executor, its worker stopped inside a transaction with the task's lock")
            states, metrics = tuple(observer.states), observer.metrics()
        assert not holder.is_running(), "whoever needs the task ends a holder that does not answer"
        chaos.kill_broker()
        chaos.recovered("broker")
        if engine == "micro-batches":
            chaos.die_at(CrashPoint.DRIVER_BEFORE_BATCH)
            chaos.restart_driver()
        else:
            chaos.kill_driver()
        plain = chaos.recovered("driver")
        chaos.stop_a_worker_at(CrashPoint.OFFSETS_SENT)
        chaos.kill_driver()
        pending = chaos.recovered("driver, a transaction with sent offsets open")
        assert pending < plain + SLOWER_WITH_OPEN_TRANSACTION_S
        sent = load.stop()
    chaos.wait_until_caught_up()
    assert application.stop() == 0
    committed = chaos.committed()
    expected = check_output(broker.bootstrap_servers, prefix, sent=sent)
    assert expected.late, "the load has late records"
    check_everything_is_committed(application, committed)
    check_stores(application, committed)
    if engine == "stream-threads":
        record(Result(key="executor", seconds=seconds, by_itself=True, states=states, metrics=metrics))
