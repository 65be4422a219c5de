"""A driver with a real control plane that shows a large topology at work, without Spark and broker.

Usage: ``python shown_job.py <run directory>``. Its mood is in ``mood`` in the run directory, read at each request:
``well`` (default), ``behind`` (a lag that grows), ``restoring``, ``silent`` (it takes a minute to answer).
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from apps.order_pipeline import build
from millrace.driver.control_file import ControlFile
from millrace.driver.health import Health, HealthReason
from millrace.driver.server import ControlServer, ControlSurface
from millrace.driver.status import ApplicationStatus
from millrace.dsl import StreamsBuilder
from millrace.processes import ProcessIdentity
from tests.shown_application import ShownApplication

DIRECTORY = Path(sys.argv[1])
TOKEN = "secret-of-the-shown"


class Shown:
    """What the control plane shows and does."""

    def __init__(self) -> None:
        builder = StreamsBuilder()
        build(builder)
        self.application = ShownApplication(DIRECTORY.name, builder.build())
        self.ended = threading.Event()

    def mood(self) -> str:
        try:
            return (DIRECTORY / "mood").read_text().strip()
        except FileNotFoundError:
            return "well"

    def status(self) -> ApplicationStatus:
        now, mood = time.time(), self.mood()
        if mood == "silent":
            self.ended.wait(60)
        return self.application.status(
            now,
            lag=int((now - self.application.started_at) * 40) if mood == "behind" else 0,
            restoring=1_500_000 if mood == "restoring" else 0,
        )

    def surface(self) -> ControlSurface:
        return ControlSurface(
            status=self.status,
            health=lambda: Health(alive=True, ready=True, reason=HealthReason.WORKING, text="it works"),
            metrics=lambda: self.application.metrics(time.time()),
            describe=lambda: "",
            stop=self.ended.set,
            pause=lambda: None,
            resume=lambda: None,
        )


def main() -> None:
    shown = Shown()
    server = ControlServer("127.0.0.1:0", TOKEN, shown.surface())
    server.start()
    (DIRECTORY / "token").write_text(TOKEN)
    identity = ProcessIdentity.current()
    ControlFile(
        pid=identity.pid, start_time=identity.start_time, address=server.address, token_file=str(DIRECTORY / "token")
    ).write(DIRECTORY / "control.json")
    shown.ended.wait()
    server.stop()


if __name__ == "__main__":
    main()
