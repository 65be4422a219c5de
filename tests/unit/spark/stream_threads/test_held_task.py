from __future__ import annotations

from typing import Any, cast

import pytest

from millrace.spark.stream_threads import held_task
from millrace.spark.stream_threads.held_task import HeldThreadTask
from millrace.spark.task_reports import TaskReporter
from millrace.spark.warm_tasks import WarmTasks


class Played:
    """The open tasks of a process with one task in it, and what was done, in order."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.task = self

    def hold(self, spec: Any, reporter: Any) -> Played:
        self.done.append("hold")
        return self

    def release(self, held: Any) -> None:
        self.done.append("release")

    def close(self) -> None:
        self.done.append("close")

    def run_batch(self, batch: Any) -> str:
        self.done.append("open")
        return "outcome"


@pytest.fixture
def spec(monkeypatch: pytest.MonkeyPatch) -> Any:
    class Config:
        bootstrap_servers = "nowhere:1"

        def client_settings(self, prefix: str) -> dict[str, str]:
            return {}

    class Part:
        global_stores = ()

    class Spec:
        name = "0_0"
        config = Config()
        part = Part()

    monkeypatch.setattr(held_task, "KafkaAdmin", lambda *_, **__: None)
    return Spec()


@pytest.mark.parametrize("is_stale", [False, True])
def test_what_is_open_is_closed_first_where_another_process_has_had_the_task_since(spec: Any, is_stale: bool) -> None:
    warm = Played()
    task = HeldThreadTask(spec, cast(WarmTasks, warm), cast(TaskReporter, None), lambda *_: None, is_stale=is_stale)
    task.open()
    assert warm.done == ["hold", *(["close"] if is_stale else []), "open", "release"]
    task.open()
    assert warm.done[-3:] == ["hold", "open", "release"], "it is this process's own from then on"
