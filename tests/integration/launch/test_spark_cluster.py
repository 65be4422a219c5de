"""The small standalone cluster that tests run executors on."""

from __future__ import annotations

from pathlib import Path

import psutil

from millrace.install.launchers.spark_cluster import SparkCluster
from millrace.kafka.java import QUICK_TO_START


def test_a_cluster_comes_up_with_its_workers_and_leaves_no_process(tmp_path: Path) -> None:
    with SparkCluster(tmp_path, workers=2, cores=1, memory="512m") as cluster:
        state = cluster.state()
        assert cluster.master.startswith("spark://127.0.0.1:")
        assert [(worker["cores"], worker["memory"]) for worker in state["workers"]] == [(1, 512), (1, 512)]
        started = [int(path.read_text()) for path in tmp_path.glob("*.pid")]
        assert len(started) == 3
        for pid in started:
            assert {*QUICK_TO_START} <= {*psutil.Process(pid).cmdline()}, "they only launch and watch"
    assert not any(psutil.pid_exists(pid) for pid in started)
    assert cluster.state() == {}
