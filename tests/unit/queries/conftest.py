from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from millrace.driver.lifecycle import ApplicationState
from millrace.driver.status import ApplicationStatus, DriverIdentity, SubTopologyStatus

HOST = DriverIdentity.of_this_process().host


@pytest.fixture
def make_status() -> Callable[..., ApplicationStatus]:
    """A status of an application with two tasks that run here, driven by this process; fields over these."""

    def make(*, tasks: dict[str, str] | None = None, active: bool = True, **fields: Any) -> ApplicationStatus:
        states = {"0_0": "RUNNING", "0_1": "RUNNING"} if tasks is None else tasks
        progress = SubTopologyStatus(task_states=states, active=active, restore_remaining={"0_1": 7})
        return ApplicationStatus(
            **{
                "application_id": "app",
                "state": ApplicationState.RUNNING,
                "driver": DriverIdentity.of_this_process(),
                "driver_epoch": 1,
                "partitions": {"in": 2},
                "offsets": {"in": {0: 10, 1: 20}},
                "progress": {0: progress},
                "task_hosts": {"0_0": f"{HOST}/1", "0_1": f"{HOST}/1"},
                "updated_at": time.time(),
                **fields,
            }
        )

    return make
