"""The standby copies that a thread keeps: which, how they are reported, and how they are given to who asks for them."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, cast

import pytest

from millrace.errors import BrokerUnavailableError, OperationError
from millrace.spark.stream_threads import standby_copies as module
from millrace.spark.stream_threads.messages import Assignment, StandbyReport
from millrace.spark.stream_threads.standby_copies import StandbyCopies
from millrace.state.standby_copy import CopiedTask, CopyStatus, StandbyCopy
from tests.waiting import wait_for


class PlayedCopy:
    """A copy that follows, until it is told to fail."""

    def __init__(self, world: World, task: CopiedTask) -> None:
        self.world = world
        self.task = task

    def __enter__(self) -> PlayedCopy:
        return self

    def __exit__(self, *_: object) -> None:
        self.world.events.append(f"closed {self.task.name}")

    def status(self) -> CopyStatus:
        return CopyStatus(lag=3, records=1, records_per_s=1.0, behind_s=None, positions={"a": 40, "b": 2})

    def catch_up(self) -> bool:
        time.sleep(0.002)
        if self.world.failing.is_set():
            raise BrokerUnavailableError("the broker is away")
        return False


class World:
    """What is around the copies of a thread."""

    def __init__(self) -> None:
        self.now = 100.0
        self.events: list[str] = []
        self.failing = threading.Event()
        self.copies = StandbyCopies(
            self.describe,
            cast(Any, lambda task: PlayedCopy(self, task)),
            lambda directory: self.events.append(f"asked for {directory.name}"),
            lambda: self.now,
        )

    def describe(self, assignment: Assignment) -> CopiedTask | None:
        if assignment.plan == "unknown":
            raise OperationError("The plan is missing.")
        return CopiedTask(
            name=assignment.task, partition=0, directory=Path("/s") / assignment.task, stores=(), changelogs={}
        )

    def keep(self, *tasks: str, plan: str = "plan") -> None:
        self.copies.keep([Assignment(task, plan) for task in tasks])

    def follows(self, task: str) -> bool:
        return StandbyReport(task, position=42, lag=3) in self.copies.reports()


@pytest.fixture
def world():
    made = World()
    yield made
    made.copies.close()


def test_copies_are_begun_reported_and_closed_as_the_driver_says(world: World) -> None:
    world.keep("0_0", "0_1")
    wait_for(lambda: world.follows("0_0") and world.follows("0_1"))
    assert sorted(world.events) == ["asked for 0_0", "asked for 0_1"], "whoever has the directory gives it back first"
    world.keep("0_1")
    wait_for(lambda: "closed 0_0" in world.events)
    assert [each.task for each in world.copies.reports()] == ["0_1"]
    world.copies.close()
    assert world.events[-1] == "closed 0_1"
    assert world.copies.reports() == ()


def test_who_asks_for_a_directory_gets_it_and_it_is_taken_back_when_the_driver_says_so_only(world: World) -> None:
    world.keep("0_0", "0_1")
    wait_for(lambda: world.follows("0_0") and world.follows("0_1"))
    world.copies.release(Path("/s/0_0"))
    assert world.events[-1] == "closed 0_0", "before it returns"
    world.now += 100
    world.keep("0_0", "0_1")
    assert not world.follows("0_0")
    assert world.events.count("asked for 0_0") == 1
    world.keep("0_1")
    world.keep("0_0", "0_1")
    wait_for(lambda: world.follows("0_0"))
    assert world.events.count("asked for 0_1") == 1, "the other one goes on"


def test_a_copy_that_fails_says_why_and_is_begun_again_a_while_later(world: World) -> None:
    world.keep("0_0")
    wait_for(lambda: world.follows("0_0"))
    world.failing.set()
    wait_for(lambda: world.copies.reports() == (StandbyReport("0_0", problem="the broker is away"),))
    world.failing.clear()
    world.now += module._RETRY_S + 0.1
    wait_for(lambda: world.follows("0_0"))


def test_a_copy_whose_plan_is_missing_says_so_and_the_others_follow(world: World) -> None:
    world.copies.keep([Assignment("0_0", "unknown"), Assignment("0_1", "plan")])
    wait_for(lambda: world.follows("0_1"))
    assert world.copies.reports()[0] == StandbyReport("0_0", problem="The plan is missing.")


def test_it_is_a_copy_that_is_followed() -> None:
    assert {"catch_up", "status", "__enter__", "__exit__"} <= set(dir(StandbyCopy))
