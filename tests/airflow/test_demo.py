"""README's first command as its user runs it, with a driver that is killed in the middle.

Everything is real here: the broker, Airflow, the application on Spark, and the supervision that starts it again.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from millrace.install.application import Application
from millrace.install.files import read_journal, read_json
from millrace.install.home import Home
from millrace.install.record import read_record
from millrace.launch import observe
from millrace.processes import ProcessIdentity
from tests.waiting import wait_for

from .demo_command import APPLICATION, DemoCommand


def driver_of(home: Home) -> ProcessIdentity | None:
    return observe(Application(home, APPLICATION)).process


def is_supervised(home: Home) -> bool:
    """Whether the trigger of the supervising task looks after the driver: it does once the deployment has ended, which
    the first alert does not wait for.
    """
    directory = home.application(APPLICATION)
    seen, record = read_json(directory.supervision), read_record(directory)
    return bool(seen and record and record.owner and seen.get("watcher") == record.owner)


@pytest.mark.kills
def test_the_demo_is_exactly_once_although_its_driver_is_killed(tmp_path: Path) -> None:
    demo = DemoCommand(tmp_path, "demo", "--rate", "300")
    try:
        wait_for(lambda: demo.said("ALERT"), limit_s=300)
        wait_for(lambda: is_supervised(demo.home), limit_s=180)
        killed = driver_of(demo.home)
        assert killed is not None
        killed.send_signal(signal.SIGKILL)
        restarted = wait_for(lambda: (now := driver_of(demo.home)) is not None and now != killed and now, limit_s=60)
        assert isinstance(restarted, ProcessIdentity)
        seen = demo.times("ALERT")
        wait_for(lambda: demo.times("ALERT") > seen, limit_s=180)
        demo.interrupt()
        code = demo.exit_code(200)
    finally:
        demo.end()
    printed = "\n".join(demo.lines)
    assert code == 0, printed
    assert "EXACTLY ONCE" in printed
    assert "no process is left" in printed
    reasons = [line["reason"] for line in read_journal(demo.home.application(APPLICATION)) if line["what"] == "launch"]
    assert any(f"process {killed.pid} ended without being asked to" in reason for reason in reasons), reasons
    assert not restarted.is_alive()
