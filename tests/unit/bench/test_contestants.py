from __future__ import annotations

import subprocess
from pathlib import Path

import psutil
import pytest

from millrace.dsl import StreamsBuilder
from millrace.install.spec import load_spec
from tests.bench import millrace_application
from tests.bench.contestants import KAFKA_STREAMS, Contestant, Run
from tests.bench.millrace_contestant import MILLRACE, MillraceContestant, millrace_before
from tests.bench.run import growth_workloads, in_order
from tests.bench.workloads import INPUT_VARIABLE, OUTPUT_VARIABLE, W1


def run_in(directory: Path) -> Run:
    return Run(
        bootstrap_servers="127.0.0.1:9092",
        application_id="bench-1",
        input_topic="payments",
        output_topic="counts",
        partitions=4,
        directory=directory,
    )


def test_millrace_gets_a_valid_spec_with_two_cores_and_the_broker(tmp_path: Path) -> None:
    spec = load_spec(MILLRACE.write_spec(run_in(tmp_path)))
    config = spec.streams_config()
    assert spec.module == "tests.bench.millrace_application:build"
    assert (config.application_id, config.bootstrap_servers) == ("bench-1", "127.0.0.1:9092")
    assert config.master == "local[2,4]"
    assert Path(config.state_dir).is_relative_to(tmp_path)


def test_millrace_s_settings_can_be_changed_for_a_comparison(tmp_path: Path) -> None:
    tuned = MillraceContestant(settings={"max.batch.records": "500000"})
    assert load_spec(tuned.write_spec(run_in(tmp_path))).streams_config().max_batch_records == 500_000


def test_millrace_before_a_change_runs_from_its_own_checkout_and_environment(tmp_path: Path) -> None:
    checkout, run = tmp_path / "checkout", run_in(tmp_path)
    python = checkout / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$PWD $PYTHONPATH $PYSPARK_PYTHON $*"\n')
    python.chmod(0o755)
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for command in (("init", "-q"), (*identity, "commit", "-q", "--allow-empty", "-m", "before")):
        subprocess.run(["git", "-C", str(checkout), *command], check=True)
    before = millrace_before(checkout)
    with before.start(run) as process:
        psutil.Process(process.pid).wait()
    words = (tmp_path / "log").read_text().split()
    assert words[:3] == [str(checkout), str(checkout), str(python)]
    assert words[3:6] == ["-m", "millrace", "run"]
    assert before.title.startswith("Millrace at ")


def test_millrace_s_topology_is_one_sub_topology_from_the_input_to_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INPUT_VARIABLE, "payments")
    monkeypatch.setenv(OUTPUT_VARIABLE, "counts")
    builder = StreamsBuilder()
    millrace_application.build(builder)
    described = str(builder.build().describe())
    assert described.count("Sub-topology:") == 1
    assert "(topics: [payments])" in described
    assert "(topic: counts)" in described


def test_the_order_of_the_contestants_turns_around_in_each_round() -> None:
    both: list[Contestant] = [MILLRACE, KAFKA_STREAMS]
    assert [in_order(both, round_number=number)[0].name for number in (1, 2, 3)] == [
        "millrace",
        "kafka-streams",
        "millrace",
    ]


def test_growth_measures_1_and_16_partitions_and_ten_times_the_keys() -> None:
    sizes = [(workload.partitions, workload.keys) for workload in growth_workloads(W1)]
    assert sizes == [(1, 100_000), (16, 100_000), (4, 1_000_000)]
