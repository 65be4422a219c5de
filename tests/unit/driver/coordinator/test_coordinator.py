from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from millrace.driver.coordinator.coordinator import Coordinator, CoordinatorSettings
from millrace.driver.coordinator.effects import CheckDead, Close, Effect, Fence, Send, TaskFailed
from millrace.errors import OperationError, StateError
from millrace.spark.stream_threads.messages import (
    Act,
    Answer,
    Assign,
    CommitNow,
    End,
    Failed,
    Goodbye,
    HeldState,
    HeldTask,
    Hello,
    Report,
    StandbyReport,
    TaskReport,
    TaskState,
)
from millrace.spark.stream_threads.problems import problem_of

RUNNING, PAUSED, OPENING = TaskState.RUNNING, TaskState.PAUSED, TaskState.OPENING


class Driver:
    """A coordinator with the effects that it wants, and threads that tests speak for."""

    def __init__(self, *tasks: str, slots: int = 2, has_copies: bool = False, **settings: Any) -> None:
        self.now = 0.0
        self.coordinator = Coordinator(
            CoordinatorSettings(application="app", **{"fences": True, **settings}), lambda: self.now
        )
        self.effects: list[Effect] = []
        self.sequence = Counter[int]()
        self.coordinator.add_tasks(dict.fromkeys(tasks, "plan"), has_copies=has_copies)
        self.epoch = self.coordinator.begin_epoch(slots)

    def hello(self, number: int, **changes: Any) -> Hello:
        values: dict[str, Any] = {
            "application": "app",
            "run": "7",
            "epoch": self.epoch,
            "slot": number,
            "attempt": 0,
            "host": "h",
            "pid": number,
            "process_start": 1,
            "cores": 1.0,
        }
        return Hello(**{**values, **changes})

    def join(self, *numbers: int, **changes: Any) -> None:
        for number in numbers:
            self.coordinator.joined(number, self.hello(number, **changes))

    def take(self) -> list[Effect]:
        taken = self.coordinator.take_effects()
        self.effects += taken
        return taken

    def assigned(self, connection: int) -> Assign:
        """What a thread was told last."""
        self.take()
        found = [
            each.message
            for each in self.effects
            if isinstance(each, Send) and each.connection == connection and isinstance(each.message, Assign)
        ]
        return found[-1] if found else Assign(0)

    def tasks(self, connection: int) -> list[str]:
        return [each.task for each in self.assigned(connection).tasks]

    def standbys(self, connection: int) -> list[str]:
        return [each.task for each in self.assigned(connection).standbys]

    def report(
        self, connection: int, state: TaskState = RUNNING, *, generation: int | None = None, **also: Any
    ) -> None:
        """A thread reports what it was told last, or other tasks."""
        names = also.get("tasks", self.tasks(connection))
        self.sequence[connection] += 1
        self.coordinator.received(
            connection,
            Report(
                also.get("sequence", self.sequence[connection]),
                self.assigned(connection).generation if generation is None else generation,
                tuple(TaskReport(task, state, busy_s=also.get("busy", {}).get(task, 0.0)) for task in names),
                tuple(also.get("standbys", ())),
            ),
        )

    def run(self, *connections: int) -> None:
        for connection in connections:
            self.report(connection)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.coordinator.tick()

    def of(self, kind: type[Any]) -> list[Any]:
        self.take()
        return [each for each in self.effects if isinstance(each, kind)]


def names(count: int) -> list[str]:
    return [f"0_{number}" for number in range(count)]


class TestThreadsThatCome:
    def test_nothing_is_given_before_all_threads_of_the_epoch_are_there(self):
        driver = Driver(*names(4))
        driver.join(1)
        assert driver.tasks(1) == []
        driver.join(2)
        assert (len(driver.tasks(1)), len(driver.tasks(2))) == (2, 2)

    def test_after_seconds_the_threads_that_came_have_all_tasks_and_the_slots_wanted_are_named(self):
        driver = Driver(*names(4), slots=3)
        driver.join(1, 2)
        driver.pass_time(4.9)
        assert driver.tasks(1) == []
        driver.pass_time(0.2)
        assert sorted(driver.tasks(1) + driver.tasks(2)) == names(4)
        assert "2 of 3 stream threads have found a slot" in driver.coordinator.shortage
        assert "give Spark 3 slots" in driver.coordinator.shortage

    def test_threads_for_which_there_is_surely_no_slot_are_not_waited_for(self):
        driver = Driver(*names(4))
        driver.epoch = driver.coordinator.begin_epoch(4, awaited=2)
        driver.join(1)
        assert driver.tasks(1) == []
        driver.join(2)
        assert (len(driver.tasks(1)), len(driver.tasks(2))) == (2, 2)
        assert "2 of 4 stream threads have found a slot, and have all tasks: give Spark 4 slots" in (
            driver.coordinator.shortage
        )
        driver.run(1, 2)
        driver.join(3)
        driver.run(1, 2)
        driver.run(3)
        assert len(driver.tasks(3)) == 1, "a slot that comes later has its share"

    def test_a_late_thread_gets_its_part_a_few_tasks_at_a_time_once_they_are_handed_over(self):
        driver = Driver(*names(12), most_moves=2)
        driver.join(1)
        driver.pass_time(5)
        driver.run(1)
        driver.join(2)
        assert len(driver.tasks(1)) == 10
        assert driver.tasks(2) == []
        driver.run(1)
        assert len(driver.tasks(2)) == 2
        assert len(driver.tasks(1)) == 10, "two are still on their way: they are being opened"
        for _ in range(10):
            driver.run(1, 2)
        assert (len(driver.tasks(1)), len(driver.tasks(2))) == (6, 6)
        assert driver.coordinator.shortage == ""

    def test_a_task_goes_where_it_is_open(self):
        driver = Driver("0_0", "0_1", "0_2", "0_3")
        driver.join(1, 2)
        driver.run(1, 2)
        before = (driver.tasks(1), driver.tasks(2))
        assert all(each.is_stale for each in driver.assigned(1).tasks), "of a driver before, or of nobody"
        driver.coordinator.end_epoch("an hour is over")
        driver.coordinator.received(1, Goodbye("an hour is over"))
        driver.coordinator.received(2, Goodbye("an hour is over"))
        driver.epoch = driver.coordinator.begin_epoch(2)
        driver.join(3, pid=2, slot=1, held=tuple(HeldTask(task, HeldState.OPEN) for task in before[1]))
        driver.join(4, pid=1, slot=2, held=tuple(HeldTask(task, HeldState.OPEN) for task in before[0]))
        assert (driver.tasks(4), driver.tasks(3)) == before
        assert not any(each.is_stale for each in driver.assigned(3).tasks)

    def test_what_a_process_holds_open_is_out_of_date_once_another_one_has_had_the_task(self):
        driver = Driver("0_0", slots=1)
        for epoch, pid in enumerate((1, 2, 1), start=1):
            held = () if epoch < 3 else (HeldTask("0_0", HeldState.OPEN),)
            driver.join(epoch, pid=pid, slot=0, held=held)
            driver.run(epoch)
            driver.coordinator.received(epoch, Goodbye("an hour is over"))
            driver.epoch = driver.coordinator.begin_epoch(1)
        assert [each.is_stale for each in driver.assigned(3).tasks] == [True]

    def test_what_was_fenced_is_out_of_date_in_its_own_process(self):
        driver = Driver("0_0", slots=1)
        driver.join(1)
        driver.run(1)
        driver.coordinator.left(1, "cut off")
        driver.coordinator.fenced(["0_0"])
        driver.join(2, pid=1, slot=1, attempt=1, held=(HeldTask("0_0", HeldState.OPEN),))
        assert [each.is_stale for each in driver.assigned(2).tasks] == [True]

    def test_a_thread_of_an_older_epoch_is_told_to_leave(self):
        driver = Driver("0_0")
        driver.epoch = driver.coordinator.begin_epoch(1)
        driver.join(1, epoch=1)
        assert driver.of(Send) == [Send(1, End("epoch 1 is over"))]
        driver.join(2)
        assert driver.tasks(2) == ["0_0"]

    def test_threads_of_the_epoch_before_are_told_to_leave_and_their_tasks_wait_for_that(self):
        driver = Driver("0_0", slots=1)
        driver.join(1)
        driver.run(1)
        driver.epoch = driver.coordinator.begin_epoch(1)
        driver.join(2)
        assert driver.of(Send)[-1] == Send(1, End("epoch 1 is over"))
        assert driver.tasks(2) == []
        driver.coordinator.received(1, Goodbye("epoch 1 is over"))
        assert driver.tasks(2) == ["0_0"]


class TestThreadsThatGo:
    def driver(self, **settings: Any) -> Driver:
        driver = Driver("0_0", "0_1", **settings)
        driver.join(1, 2)
        driver.run(1, 2)
        return driver

    def test_its_tasks_are_given_to_others_only_once_they_are_fenced(self):
        driver = self.driver()
        (lost,) = driver.tasks(1)
        driver.coordinator.left(1, "the other side closed the connection")
        assert driver.of(Fence) == [Fence((lost,), driver.hello(1))]
        assert f"task {lost} waits until its transactional id is taken over" in driver.coordinator.reason
        driver.pass_time(60)
        assert lost not in driver.tasks(2)
        driver.coordinator.fenced([lost])
        driver.pass_time(0)
        assert lost in driver.tasks(2)
        assert driver.coordinator.reason == ""

    def test_a_replacement_is_waited_for_a_while(self):
        driver = self.driver()
        (lost,) = driver.tasks(1)
        driver.coordinator.left(1, "killed")
        driver.coordinator.fenced([lost])
        assert lost not in driver.tasks(2)
        driver.now += 1
        driver.join(3, slot=1, attempt=1)
        assert driver.tasks(3) == [lost]

    def test_a_fence_that_fails_is_tried_again(self):
        driver = self.driver()
        (lost,) = driver.tasks(1)
        driver.coordinator.left(1, "killed")
        driver.coordinator.not_fenced([lost], "no broker answers")
        driver.pass_time(0.5)
        assert len(driver.of(Fence)) == 1
        driver.pass_time(0.6)
        assert len(driver.of(Fence)) == 2
        assert "no broker answers" in driver.coordinator.reason

    def test_without_transactional_ids_its_process_must_be_gone(self):
        driver = self.driver(fences=False, join_wait_s=0.0)
        (lost,) = driver.tasks(1)
        driver.coordinator.left(1, "killed")
        assert [each.hello.thread for each in driver.of(CheckDead)] == ["h/1/1"]
        assert lost not in driver.tasks(2)
        driver.coordinator.process_ended("h/1/1")
        assert lost in driver.tasks(2)

    def test_or_its_lease_must_have_ended(self):
        driver = self.driver(fences=False, join_wait_s=0.0, lease_s=20.0)
        (lost,) = driver.tasks(1)
        driver.coordinator.left(1, "nothing was heard")
        driver.pass_time(19.9)
        assert lost not in driver.tasks(2)
        driver.pass_time(0.2)
        assert lost in driver.tasks(2)
        assert driver.of(Fence) == []

    def test_after_a_goodbye_nothing_is_fenced(self):
        driver = self.driver()
        driver.coordinator.received(1, Goodbye("enough"))
        driver.coordinator.left(1, "closed")
        driver.pass_time(5)
        assert sorted(driver.tasks(2)) == ["0_0", "0_1"]
        assert driver.of(Fence) == []

    def test_a_process_that_comes_again_has_ended_what_it_did_before(self):
        driver = self.driver(fences=False)
        (lost,) = driver.tasks(1)
        driver.coordinator.left(1, "cut off")
        driver.join(3, slot=1, pid=1, attempt=1)
        assert driver.tasks(3) == [lost]

    def test_but_one_that_is_being_fenced_waits_for_the_fence_which_would_hit_it(self):
        driver = self.driver()
        (lost,) = driver.tasks(1)
        driver.coordinator.left(1, "cut off")
        driver.join(3, slot=1, pid=1, attempt=1)
        assert driver.tasks(3) == []
        driver.coordinator.fenced([lost])
        assert driver.tasks(3) == [lost]

    def test_an_attempt_that_spark_has_replaced_is_fenced_before_its_connection_ends(self):
        driver = self.driver()
        (lost,) = driver.tasks(1)
        driver.join(3, slot=1, attempt=1)
        assert driver.of(Close) == [Close(1, "Spark has started it again", at_once=True)]
        assert driver.of(Fence) == [Fence((lost,), driver.hello(1))]

    def test_when_the_last_thread_has_gone_the_first_that_returns_waits_for_the_others(self):
        driver = self.driver()
        tasks = driver.tasks(1) + driver.tasks(2)
        driver.coordinator.left(1, "killed")
        driver.coordinator.left(2, "killed")
        driver.coordinator.fenced(tasks)
        driver.now += 60
        driver.join(3)
        assert driver.tasks(3) == []
        driver.join(4)
        assert (len(driver.tasks(3)), len(driver.tasks(4))) == (1, 1)

    def test_one_that_does_not_hand_over_in_time_is_cut_off_and_fenced(self):
        driver = Driver(*names(2), hand_over_limit_s=300.0)
        driver.join(1)
        driver.pass_time(5)
        driver.run(1)
        driver.join(2)
        driver.pass_time(299)
        assert driver.of(Close) == []
        driver.pass_time(2)
        assert driver.of(Close) == [Close(1, "it has not done what it was told 300 s ago", at_once=True)]
        assert [each.hello.thread for each in driver.of(Fence)] == ["h/1/1"]


class TestMessagesThatAreNotAsTheyShouldBe:
    def driver(self) -> Driver:
        driver = Driver("0_0", "0_1")
        driver.join(1, 2)
        return driver

    def test_a_report_from_before_an_assignment_releases_nothing(self):
        driver = self.driver()
        driver.report(1, tasks=[], generation=0)
        driver.run(1, 2)
        assert len(driver.tasks(1)) == 1
        assert driver.of(Close) == []

    def test_a_report_that_comes_late_changes_nothing(self):
        driver = self.driver()
        driver.run(1, 2)
        driver.report(1, OPENING, sequence=1)
        assert driver.coordinator.members.not_open(["0_0", "0_1"]) == []

    def test_an_assignment_that_a_thread_does_not_know_is_sent_again(self):
        driver = self.driver()
        driver.report(1, tasks=[], generation=0)
        driver.take()
        driver.effects.clear()
        driver.pass_time(5.1)
        assert driver.of(Send)[0] == Send(1, driver.assigned(1))
        driver.run(1, 2)
        driver.effects.clear()
        driver.pass_time(60)
        assert driver.of(Send) == []

    def test_a_thread_with_a_task_that_it_was_not_given_is_cut_off_and_fenced(self):
        driver = self.driver()
        driver.run(1, 2)
        driver.coordinator.remove_tasks(driver.tasks(2))
        other = driver.tasks(1)
        driver.report(1, tasks=[*other, "7_7"])
        assert driver.of(Close) == [Close(1, "it has tasks that it was not given", at_once=True)]
        assert set(driver.of(Fence)[0].tasks) == {*other, "7_7"}

    def test_what_an_ended_connection_says_is_ignored(self):
        driver = self.driver()
        driver.run(1, 2)
        driver.coordinator.left(1, "cut off")
        driver.take()
        driver.coordinator.received(1, Goodbye("late"))
        driver.coordinator.received(1, Report(99, 99))
        assert driver.take() == []

    def test_a_failure_from_before_an_assignment_that_has_the_task_does_not_free_it(self):
        driver = Driver("0_0", slots=1)
        driver.join(1)
        driver.run(1)
        before = driver.assigned(1).generation
        driver.coordinator.add_tasks({"0_1": "plan"})
        driver.coordinator.received(1, Failed("0_0", before, problem_of(StateError("gone"))))
        driver.report(1, tasks=[], generation=before)
        assert driver.of(TaskFailed) == [], "the thread opens it again: what has it is on its way"
        assert driver.tasks(1) == ["0_0", "0_1"]
        driver.coordinator.received(1, Failed("0_0", driver.assigned(1).generation, problem_of(StateError("gone"))))
        assert len(driver.of(TaskFailed)) == 1

    def test_a_task_that_a_thread_has_dropped_without_a_word_is_given_again(self):
        driver = Driver("0_0", slots=1)
        driver.join(1)
        driver.run(1)
        before = driver.assigned(1).generation
        driver.report(1, tasks=[])
        assert driver.tasks(1) == ["0_0"]
        assert driver.assigned(1).generation > before

    def test_a_failure_that_comes_a_second_time_does_not_take_the_task_from_its_new_thread(self):
        driver = Driver("0_0", slots=1)
        driver.join(1)
        driver.run(1)
        failed = Failed("0_0", driver.assigned(1).generation, problem_of(StateError("gone")))
        driver.coordinator.received(1, failed)
        driver.coordinator.add_tasks({"0_0": "plan"})
        driver.coordinator.received(1, failed)
        assert len(driver.of(TaskFailed)) == 1
        assert driver.tasks(1) == ["0_0"]


def test_a_task_that_failed_has_no_thread_until_it_is_given_again():
    driver = Driver("0_0", slots=1)
    driver.join(1)
    driver.run(1)
    driver.coordinator.received(1, Failed("0_0", 1, problem_of(StateError("0_0 is behind", remedy="restore"))))
    (failure,) = driver.of(TaskFailed)
    assert (failure.task, type(failure.error), failure.error.remedy) == ("0_0", StateError, "restore")
    assert driver.tasks(1) == []
    driver.pass_time(60)
    assert driver.tasks(1) == []
    driver.coordinator.add_tasks({"0_0": "plan"})
    assert driver.tasks(1) == ["0_0"]


def test_another_plan_of_a_task_is_told_to_its_thread():
    driver = Driver("0_0", slots=1)
    driver.join(1)
    driver.coordinator.add_tasks({"0_0": "another"})
    assert [each.plan for each in driver.assigned(1).tasks] == ["another"]


class TestPausing:
    def driver(self) -> Driver:
        driver = Driver("0_0", "0_1")
        driver.join(1, 2)
        driver.run(1, 2)
        driver.coordinator.set_paused(["0_0", "0_1"], paused=True)
        return driver

    def test_tasks_are_paused_once_all_threads_have_said_so(self):
        driver = self.driver()
        assert all(each.paused for each in driver.assigned(1).tasks + driver.assigned(2).tasks)
        assert driver.coordinator.not_paused(["0_0", "0_1"]) == ["0_0", "0_1"]
        driver.report(1, PAUSED)
        assert driver.coordinator.not_paused(["0_0", "0_1"]) == driver.tasks(2)
        driver.report(2, PAUSED)
        assert driver.coordinator.not_paused(["0_0", "0_1"]) == []

    def test_a_report_about_the_pause_before_does_not_count(self):
        driver = self.driver()
        before = driver.assigned(1).generation
        driver.report(1, PAUSED)
        driver.report(2, PAUSED)
        driver.coordinator.set_paused(["0_0", "0_1"], paused=False)
        driver.coordinator.set_paused(["0_0", "0_1"], paused=True)
        driver.report(1, PAUSED, generation=before)
        assert driver.tasks(1)[0] in driver.coordinator.not_paused(["0_0", "0_1"])

    def test_a_task_that_fails_meanwhile_is_not_waited_for(self):
        driver = self.driver()
        (failing,) = driver.tasks(1)
        failed = Failed(failing, driver.assigned(1).generation, problem_of(StateError("its input is gone")))
        driver.coordinator.received(1, failed)
        assert driver.coordinator.not_paused(["0_0", "0_1"]) == driver.tasks(2)
        driver.coordinator.add_tasks({failing: "plan"}, paused=True)
        assert failing in driver.coordinator.not_paused(["0_0", "0_1"])

    def test_a_task_that_changes_threads_stays_paused(self):
        driver = self.driver()
        (lost,) = driver.tasks(1)
        driver.coordinator.left(1, "killed")
        driver.coordinator.fenced([lost])
        driver.pass_time(5)
        assert [each.paused for each in driver.assigned(2).tasks] == [True, True]
        assert lost in driver.coordinator.not_paused(["0_0", "0_1"])


class TestCommands:
    def driver(self) -> Driver:
        driver = Driver("0_0", "0_1")
        driver.join(1, 2)
        driver.run(1, 2)
        return driver

    def test_each_thread_is_asked_for_its_tasks_and_the_answers_are_put_together(self):
        driver = self.driver()
        command = driver.coordinator.act("link-database", {"directory": "/d"}, ["0_0", "0_1"])
        asked = {each.connection: each.message for each in driver.of(Send) if isinstance(each.message, Act)}
        assert sorted(task for each in asked.values() for task in each.tasks) == ["0_0", "0_1"]
        for connection, message in asked.items():
            assert driver.coordinator.outcome(command) is None
            driver.coordinator.received(connection, Answer(command, dict.fromkeys(message.tasks, connection)))
        outcome = driver.coordinator.outcome(command)
        assert outcome is not None
        assert (sorted(outcome.answers), outcome.error) == (["0_0", "0_1"], None)

    def test_an_answer_that_comes_twice_counts_once(self):
        driver = self.driver()
        command = driver.coordinator.commit_now(["0_0", "0_1"])
        assert [type(each.message) for each in driver.of(Send)[-2:]] == [CommitNow, CommitNow]
        driver.coordinator.received(1, Answer(command))
        driver.coordinator.received(1, Answer(command))
        assert driver.coordinator.outcome(command) is None

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            (Answer(1, problem=problem_of(StateError("no space"))), "no space"),
            (Answer(1, missing=("0_0",)), "had handed them over"),
        ],
    )
    def test_what_failed_is_the_outcome(self, answer, message):
        driver = self.driver()
        command = driver.coordinator.act("link-database", {}, driver.tasks(1))
        driver.coordinator.received(1, answer)
        outcome = driver.coordinator.outcome(command)
        assert outcome is not None
        assert message in str(outcome.error)

    def test_a_thread_that_goes_away_is_not_waited_for(self):
        driver = self.driver()
        command = driver.coordinator.act("link-database", {}, driver.tasks(1))
        driver.coordinator.left(1, "killed")
        outcome = driver.coordinator.outcome(command)
        assert outcome is not None
        assert isinstance(outcome.error, OperationError)
        assert "went away" in outcome.error.message

    def test_a_task_without_a_thread_is_named_at_once(self):
        driver = Driver("0_0")
        outcome = driver.coordinator.outcome(driver.coordinator.act("link-database", {}, ["0_0"]))
        assert outcome is not None
        assert "0_0 could not be asked" in str(outcome.error)


def test_an_uneven_load_is_evened_out_by_an_exchange_of_tasks():
    driver = Driver(*names(4), load_interval_s=60.0)
    driver.join(1, 2)
    driver.pass_time(0)
    heavy = driver.tasks(1)
    busy = dict.fromkeys(heavy, 0.0)
    for _ in range(4):
        for connection in (1, 2):
            driver.report(connection, busy=busy)
        driver.pass_time(61)
        busy = {task: seconds + 24 for task, seconds in busy.items()}
    for _ in range(4):
        driver.run(1, 2)
    assert len(driver.tasks(1)) == len(driver.tasks(2)) == 2
    assert len(set(driver.tasks(1)) & set(heavy)) == 1
    assert len(set(driver.tasks(2)) & set(heavy)) == 1


def test_it_says_how_many_threads_it_waits_for():
    driver = Driver("0_0", slots=2)
    assert driver.coordinator.reason == "0 of 2 stream threads have connected to the coordinator"
    driver.join(1)
    assert driver.coordinator.reason.startswith("1 of 2 stream threads")
    driver.coordinator.end_epoch("an hour is over")
    assert "no epoch" in driver.coordinator.reason


class TestStandbyCopies:
    """Threads of three hosts, one task each; a thread's connection has the number of its host."""

    def driver(self, *, threads: int = 3, replicas: int = 1) -> Driver:
        driver = Driver(*names(threads), slots=threads, has_copies=True, standby_replicas=replicas)
        for number in range(1, threads + 1):
            driver.join(number, host=f"h{number}")
        return driver

    def owner(self, driver: Driver, task: str) -> int:
        return next(number for number in range(1, 9) if task in driver.tasks(number))

    def test_each_task_has_its_copies_on_other_hosts_as_many_as_there_are(self):
        for replicas, expected in ((1, 1), (2, 2), (5, 2)):
            driver = self.driver(replicas=replicas)
            for task in names(3):
                keepers = [number for number in (1, 2, 3) if task in driver.standbys(number)]
                assert len(keepers) == expected
                assert self.owner(driver, task) not in keepers
        assert [len(self.driver().standbys(number)) for number in (1, 2, 3)] == [1, 1, 1], "spread evenly"

    def test_none_is_kept_on_the_disk_of_the_task_itself(self):
        driver = Driver(*names(2), has_copies=True, standby_replicas=1)
        driver.join(1, 2)
        assert driver.tasks(1) + driver.tasks(2) == names(2)
        assert driver.standbys(1) == driver.standbys(2) == []
        driver = Driver(*names(2), has_copies=True, standby_replicas=1)
        driver.join(1, state_dir="/a")
        driver.join(2, state_dir="/b")
        assert (driver.standbys(1), driver.standbys(2)) == (driver.tasks(2), driver.tasks(1))

    def test_without_replicas_or_stores_there_are_none(self):
        for has_copies, replicas in ((True, 0), (False, 1)):
            driver = Driver(*names(2), has_copies=has_copies, standby_replicas=replicas)
            driver.join(1, host="a")
            driver.join(2, host="b")
            assert driver.standbys(1) == driver.standbys(2) == []

    def test_who_keeps_the_copy_gets_the_task_when_its_thread_is_killed_and_another_one_keeps_a_copy(self):
        driver = self.driver()
        for number in (1, 2, 3):
            copies = [StandbyReport(task, position=50, lag=0) for task in driver.standbys(number)]
            driver.report(number, standbys=copies)
        (lost,) = driver.tasks(1)
        keeper = next(number for number in (2, 3) if lost in driver.standbys(number))
        other = 5 - keeper
        driver.coordinator.left(1, "killed")
        driver.coordinator.fenced([lost])
        driver.pass_time(5.1)
        assert lost in driver.tasks(keeper)
        assert lost not in driver.standbys(keeper)
        driver.run(keeper, other)
        assert lost in driver.standbys(other)

    def test_a_copy_that_is_behind_gives_way_to_a_disk_that_is_not(self):
        driver = Driver("0_0", slots=2, has_copies=True, standby_replicas=1)
        driver.join(1, host="a", held=(HeldTask("0_0", HeldState.STANDBY, 10),))
        driver.join(2, host="b", held=(HeldTask("0_0", HeldState.DISK, 11),))
        assert (driver.tasks(2), driver.standbys(1)) == (["0_0"], ["0_0"])

    def test_copies_stay_where_they_are_while_their_task_has_no_thread_and_when_threads_come(self):
        driver = self.driver()
        before = {number: driver.standbys(number) for number in (1, 2, 3)}
        driver.coordinator.left(1, "killed")
        for number in (2, 3):
            driver.run(number)
            assert driver.standbys(number) == before[number]
        driver = Driver("0_0", slots=3, has_copies=True, standby_replicas=1)
        driver.join(1, host="a")
        driver.join(2, host="b")
        driver.pass_time(5.1)
        keeper = 1 if driver.standbys(1) else 2
        driver.run(1, 2)
        driver.join(3, host="c")
        assert driver.standbys(keeper) == ["0_0"]
        assert driver.standbys(3) == []
