from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from millrace.install.application import Application
from millrace.install.home import Home
from millrace.operations.savepoints import Manifest, SavepointState, SavepointSummary, summary
from millrace.operations.savepoints.location import launched_repository
from millrace.operations.savepoints.manifest import SavedFile
from millrace.operations.savepoints.summary import summarized


def saved(name: str, at: float, **changes: object) -> Manifest:
    return Manifest(
        **{"name": name, "application": "payments", "state": SavepointState.COMPLETED, "created_at": at, **changes}
    )


def test_a_summary_says_how_old_how_large_and_how_far_each_is() -> None:
    files = [SavedFile(path=f"0_0/rocksdb/{n}.sst", size=10, sha256=f"{n}") for n in range(3)]
    whole = saved("whole", 100.0, completed_at=104.5, files=files, copied_bytes=20, parent="before", reason="daily")
    failed = saved("failed", 200.0, state=SavepointState.FAILED, from_running=False, reason="the disk is full")
    assert summarized([whole, failed], now=160.0) == (
        SavepointSummary(
            name="whole",
            state=SavepointState.COMPLETED,
            created_at=100.0,
            age_s=60.0,
            took_s=4.5,
            size_bytes=30,
            copied_bytes=20,
            parent="before",
            from_running=True,
            reason="daily",
        ),
        SavepointSummary(
            name="failed",
            state=SavepointState.FAILED,
            created_at=200.0,
            age_s=0.0,
            took_s=None,
            size_bytes=0,
            copied_bytes=0,
            parent=None,
            from_running=False,
            reason="the disk is full",
        ),
    )


def test_those_of_an_application_come_oldest_first(home: Home, write_spec: Callable[..., Path]) -> None:
    write_spec()
    assert summary(Application(home, "payments")) == ()
    repository = launched_repository(Application(home, "payments"))
    repository.write(saved("b", 1.0))
    repository.write(saved("a", 2.0))
    assert [each.name for each in summary(Application(home, "payments"))] == ["b", "a"]
