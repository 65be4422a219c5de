"""What a recovery drill refuses; the fake job stands in for the driver."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from millrace.driver.lifecycle import ApplicationState
from millrace.driver.status import ApplicationStatus, DriverIdentity
from millrace.errors import OperationError
from millrace.install.application import Application
from millrace.install.home import Home
from millrace.operations import recovery_drill
from millrace.operations.recovery_drill import input_limit_s, inputs_of
from millrace.supervise import deploy, wait_until_ready

WriteSpec = Callable[..., Path]
NAME = "payments"


def test_what_is_for_production_is_not_drilled(home: Home, write_spec: WriteSpec) -> None:
    write_spec()
    with pytest.raises(OperationError, match="payments is for production, and is not drilled"):
        recovery_drill(Application(home, NAME))


def test_what_is_not_healthy_is_not_drilled(home: Home, write_spec: WriteSpec) -> None:
    write_spec(production=False)
    with pytest.raises(OperationError, match="is not healthy before the drill"):
        recovery_drill(Application(home, NAME))


def test_a_task_that_no_worker_of_this_installation_runs_is_not_drilled(home: Home, write_spec: WriteSpec) -> None:
    write_spec(production=False)
    deploy(Application(home, NAME))
    wait_until_ready(Application(home, NAME), timeout_s=240)
    with pytest.raises(OperationError, match="0_1 of payments runs in a worker that this installation started"):
        recovery_drill(Application(home, NAME), task="0_1")
    assert not home.application(NAME).drills.exists()


def test_the_inputs_of_a_task_are_those_of_its_sub_topology_that_have_its_partition() -> None:
    nodes = [
        [{"kind": "Source", "topics": ["in", "small"]}, {"kind": "Sink", "topic": "by-key"}],
        [{"kind": "Source", "topics": ["by-key"]}],
    ]
    status = ApplicationStatus.model_validate(
        {
            "application_id": "app",
            "state": ApplicationState.RUNNING,
            "driver": DriverIdentity.of_this_process(),
            "driver_epoch": 1,
            "commit_interval_ms": 45_000,
            "topology_summary": {"sub_topologies": nodes, "repartition_topics": {"by-key": 2}},
            "offsets": {"in": {0: 1, 1: 1}, "small": {0: 1}, "app-by-key": {0: 1, 1: 1}},
        }
    )
    assert input_limit_s(status) == 75.0
    assert inputs_of(status, "0_0") == [("in", 0), ("small", 0)]
    assert inputs_of(status, "0_1") == [("in", 1)]
    assert inputs_of(status, "1_1") == [("app-by-key", 1)]
    with pytest.raises(OperationError, match="Nothing is known of the input of task 0_7"):
        inputs_of(status, "0_7")
