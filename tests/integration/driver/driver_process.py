"""A driver with queries that do nothing, in a process of its own: `driver_process.py <bootstrap> <id> <directory>`."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from millrace.driver.driver import Driver
from millrace.driver.driver_options import DriverHooks, DriverSettings
from millrace.driver.query import QueryProgress
from millrace.driver.reporter import Application, Prepared
from millrace.driver.status_topic import StatusPublisher
from millrace.errors import DriverFencedError
from millrace.task.task import TaskAction


class IdleQuery:
    name = "idle-0"
    sub_topology = 0
    exception = None
    next_tick_s = None
    progress = QueryProgress(sub_topology=0)

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.is_active = False
        self.purges = True

    def start(self) -> None:
        self.is_active = True

    def stop(self, timeout_s: float) -> None:
        self.is_active = False

    def request_stop(self) -> None: ...

    def abandon(self, error: DriverFencedError) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def tick(self) -> None: ...

    def run_on_tasks(self, action: TaskAction) -> dict[str, object]:
        return {}


def main(bootstrap_servers: str, application_id: str, directory: Path) -> int:
    prepared = Prepared(
        queries=(IdleQuery(),), transactional_ids=(f"{application_id}-0_0",), offsets={0: {("in", 0): 5}}
    )
    driver = Driver(
        Application(application_id=application_id, run_id=directory.name),
        DriverHooks(prepare=lambda _: prepared),
        StatusPublisher(bootstrap_servers, application_id),
        DriverSettings(control_file=directory / "control.json", heartbeat_interval_s=0.3),
    )
    return driver.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
