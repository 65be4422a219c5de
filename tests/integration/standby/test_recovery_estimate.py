"""The estimate of a recovery against restorations that ran, from the broker's offsets and the rate of this host."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from millrace.insight.recovery import estimate_for
from millrace.kafka.producer import TaskProducer
from millrace.operations.standby import Standby, StandbyOptions
from millrace.state import StateDirectory, StateOptions, TaskState
from millrace.task.recovery import restore_to
from millrace.task.signature import Signature
from tests.integration.standby.counting import PARTITIONS, Counting

RECORDS = 200_000
BATCH = 20_000
TURNS = 4


@pytest.fixture
def filled(make_counting: Callable[..., Counting], bootstrap_servers: str, unique: str) -> tuple[Counting, int]:
    """The application with a changelog of counts for each task, and where those end."""
    counting = make_counting(settings={"restore.threads": 1})
    counting.plan("state")
    topic = f"{counting.name}-counts-changelog"
    end = 0
    with TaskProducer(bootstrap_servers, transactional_id=f"{unique}-fill") as producer:
        producer.init()
        for first in range(0, RECORDS, BATCH):
            keys = [b"customer-%011d" % number for number in range(first, first + BATCH)]
            producer.begin()
            for partition in range(PARTITIONS):
                producer.send(topic, keys, [bytes(80)] * BATCH, np.full(BATCH, 1_000), partition=partition, track=True)
            producer.flush()
            end = producer.sent_end_offset(topic, 0) or end
            producer.commit({}, f"{unique}-other")
    return counting, end


def restore_all(counting: Counting, end: int) -> float:
    """Seconds that the tasks take to be whole, one after the other as `restore.threads` says."""
    plan = counting.plan("state")
    began = time.perf_counter()
    for partition in range(PARTITIONS):
        spec = plan.task_spec(partition)
        state = TaskState.open(
            spec.state_directory, spec.sub_topology.stores, options=StateOptions.from_config(spec.config)
        )
        committed = dict.fromkeys(spec.inputs, 0)
        signature = Signature(run=spec.part.run_id, changelogs={"counts": end})
        assert restore_to(state, spec, committed, signature, lambda _: None) == RECORDS
        state.close()
    return time.perf_counter() - began


@pytest.mark.alone
def test_the_estimate_is_within_a_quarter_of_what_restorations_took(filled: tuple[Counting, int]) -> None:
    """Each restoration gives the rate for the estimate of the next. Where others use the machine between the two, one
    prediction says little; so the best of some counts, and none is far off."""
    counting, end = filled
    config = counting.config("state")
    restore_all(counting, end)
    errors = []
    for _ in range(TURNS):
        for partition in range(PARTITIONS):
            shutil.rmtree(StateDirectory(config.state_dir).task(counting.name, 0, partition), ignore_errors=True)
        estimate = estimate_for(config, counting.topology)
        assert estimate.measured
        assert RECORDS * PARTITIONS <= estimate.records <= 1.01 * RECORDS * PARTITIONS
        errors.append(abs(math.log(estimate.restore_s / restore_all(counting, end))))
    assert min(errors) < math.log(1.25)
    assert max(errors) < math.log(10)


def test_with_a_standby_the_estimate_is_of_its_lag(filled: tuple[Counting, int]) -> None:
    counting, _ = filled
    config = counting.config("state")
    without = estimate_for(config, counting.topology)
    assert not without.standby_runs
    assert without.standby_records == PARTITIONS * config.acceptable_recovery_lag
    copies = counting.directory / "copies"
    Standby(config, counting.topology, StandbyOptions(state_dir=copies, once=True)).run()
    helped = estimate_for(config, counting.topology, standby_state_dir=copies)
    assert helped.standby_runs
    assert helped.standby_records == 0
    assert helped.standby_restore_s == 0
    assert replace(without, standby_records=0, standby_restore_s=0.0, standby_runs=True) == helped
