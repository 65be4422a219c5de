"""What a sampled stack is counted for."""

from __future__ import annotations

import pytest

from tests.bench.report import StepTime, render_steps
from tests.bench.steps import OTHER, in_order, shares, step_of

LOOP = "<module> (daemon.py:57);StreamThread.run (thread.py:126);StreamThread.turn (thread.py:142)"
POLL = f"{LOOP};LibrdkafkaReader.poll (librdkafka_reader.py:113)"
BATCH = "Thread.run (threading.py:982);Task._run_batch (task.py:302);Engine.process (engine.py:202)"


@pytest.mark.parametrize(
    ("stack", "step"),
    [
        (LOOP, "the loop of the stream thread"),
        (POLL, "messages are freed"),
        (f"{POLL};LibrdkafkaReader._consume (x.py:1);f (y.py:1)", "messages are taken from librdkafka's queue"),
        (f"{BATCH};Sources.read (sources.py:1);decode_objects (json.py:1)", "keys and values are decoded"),
        (f"{BATCH};count (aggregation.py:1)", "operators and stores"),
        ("Thread.run (threading.py:982)", OTHER),
    ],
)
def test_the_nearest_frame_that_is_a_steps_decides(stack: str, step: str) -> None:
    assert step_of(stack) == step


def test_shares_are_of_all_samples() -> None:
    assert shares([f"{POLL} 3", f"{LOOP} 1"]) == {"messages are freed": 0.75, "the loop of the stream thread": 0.25}


def test_steps_stand_as_a_record_meets_them_and_the_table_has_a_column_for_each_workload() -> None:
    times = in_order({"threads of RocksDB": 0.5, "operators and stores": 0.25, "messages are freed": 0.125})
    assert [step for step, _ in times] == ["messages are freed", "operators and stores", "threads of RocksDB"]
    steps = [StepTime("W1", step, us) for step, us in times] + [StepTime("W2", "operators and stores", 0.001)]
    assert render_steps(steps).splitlines()[2:] == [
        "| messages are freed | 0.12 | 0.00 |",
        "| operators and stores | 0.25 | 0.00 |",
        "| threads of RocksDB | 0.50 | 0.00 |",
        "| all | 0.88 | 0.00 |",
    ]
