"""What a driver has its tasks do for audits and compactions, on a real task between two batches, without Spark."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from millrace.install.application import Application
from millrace.operations.audit import audit
from millrace.operations.audit.database import opened
from millrace.task.actions import CompactDatabase, LinkDatabase
from millrace.task.task import Task
from tests.application import PREFIX_VARIABLE, wait_until
from tests.integration.operations.worked import Worked
from tests.records import Record


@pytest.fixture
def worked(bootstrap_servers: str, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worked:
    monkeypatch.setenv(PREFIX_VARIABLE, unique)
    application = Worked(bootstrap_servers, unique, tmp_path, "counting", ["in"])
    application.send("in", [Record(f"key-{n % 40}".encode(), b"x", 1_000_000 + n) for n in range(400)])
    return application


def test_a_linked_database_stays_what_it_was_while_the_task_goes_on(worked: Worked, tmp_path: Path) -> None:
    def link(task: Task) -> None:
        answer = pickle.loads(pickle.dumps(LinkDatabase(tmp_path / "copies")))(task)
        assert answer["directory"] == str(tmp_path / "copies" / "0_0")

    worked.work(link)
    worked.send("in", [Record(b"another", b"x", 1_000_500)])
    worked.work()
    with opened(tmp_path / "copies" / "0_0") as copy, opened(worked.database()) as now:
        assert len(list(copy.rows("counts"))) == 40
        assert len(list(now.rows("counts"))) == 41
        assert copy.position.changelogs["counts"] < now.position.changelogs["counts"]


def test_a_task_compacts_in_the_background_and_is_closed_in_order(worked: Worked) -> None:
    def compact(task: Task) -> None:
        assert CompactDatabase()(task) is None
        assert CompactDatabase(60.0)(task) is not None

        def done() -> bool:
            progress = CompactDatabase()(task)
            return progress is not None and not progress["running"]

        wait_until(done, timeout_s=60, what="the compaction")
        progress = CompactDatabase(60.0)(task)
        assert progress is not None
        assert progress["problem"] == ""

    worked.work(compact)
    assert audit(Application(worked.home, worked.name)).agrees
