"""The loop of a stream thread: what it reads, runs, reports and hands over, and when."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.errors import (
    OffsetOutOfRangeError,
    ProcessingError,
    StateError,
    TaskMigratedError,
    TransactionAbortedError,
)
from millrace.spark.stream_threads.conversation import Ended
from millrace.spark.stream_threads.messages import Act, Answer, CommitNow, End, Failed, Report, StandbyReport, TaskState
from millrace.spark.stream_threads.thread import DriverLostError
from millrace.spark.stream_threads.thread_limits import MOST_BUFFERED_BYTES
from millrace.task.batch_outcome import BatchOutcome

World = Any
INTERVAL_S = 0.1


def running(world: World, *names: str) -> None:
    """Has the thread open tasks."""
    world.running(*names)


def state_of(world: World) -> TaskState:
    """What the last report says of the only task."""
    (report,) = world.driver.last_report.tasks
    state: TaskState = report.state
    return state


def answers(world: World) -> list[Answer]:
    return [said for said in world.driver.said if isinstance(said, Answer)]


def test_a_task_reads_from_its_committed_offsets_and_commits_what_it_processed(world: World) -> None:
    task = world.task("0_0")
    task.committed["in", 0] = 2
    world.reader.put(("in", 0), 10, 20, 30, 40, marker=True)
    running(world, "0_0")
    world.turn_until(lambda: task.committed["in", 0] == 5)
    assert task.processed == [("in", 2), ("in", 3)]


def test_the_first_record_after_a_rest_is_committed_at_once_and_the_next_ones_after_the_interval(world: World) -> None:
    task = world.task("0_0")
    running(world, "0_0")
    world.turn_for(2.0)
    world.reader.put(("in", 0), 1)
    assert world.turn_until(lambda: task.committed["in", 0] == 1) < 0.02
    world.reader.put(("in", 0), 2)
    world.reader.put(("in", 0), 3)
    assert INTERVAL_S * 0.9 < world.turn_until(lambda: task.committed["in", 0] == 3) < INTERVAL_S + 0.03
    assert task.batches == [1, 2]


def test_with_a_backlog_a_batch_is_whole_and_never_larger_than_its_limit(world: World) -> None:
    task = world.task("0_0")
    world.reader.most = 300
    world.reader.put(("in", 0), *range(2_500))
    running(world, "0_0")
    world.turn_until(lambda: task.committed["in", 0] == 2_500)
    assert task.batches[:2] == [900, 900]
    assert max(task.batches) <= 1_000
    assert task.processed == [("in", offset) for offset in range(2_500)]


def test_a_slow_task_gets_smaller_batches(world: World) -> None:
    world.most_records = 250_000
    task = world.task("0_0")
    task.batch_s = 10.0
    world.reader.put(("in", 0), *range(60_000))
    world.reader.most = 1_000
    running(world, "0_0")
    world.turn_until(lambda: len(task.batches) >= 3, within_s=60)
    # 20,000 records in 10 s are 8,000 in the 4 s that a batch is meant to take.
    assert task.batches[0] == 20_000
    assert task.batches[1] <= 8_000


def test_reading_pauses_where_two_batches_are_buffered_and_goes_on_behind_a_commit(world: World) -> None:
    task = world.task("0_0")
    world.executor.at_once = False
    world.reader.most = 500
    world.reader.put(("in", 0), *range(4_000))
    world.driver.assign("0_0")
    world.turn_until(lambda: world.executor.queued)
    world.executor.run_all()
    world.turn_until(lambda: world.reader.paused)
    assert world.reader.positions["in", 0] == 2_000
    world.executor.at_once = True
    world.executor.run_all()
    world.turn_until(lambda: task.committed["in", 0] == 4_000)
    assert not world.reader.paused


def test_the_partitions_of_a_thread_share_the_memory(world: World) -> None:
    world.task("0_0")
    world.task("0_1")
    running(world, "0_0", "0_1")
    shares = {task.input.most_bytes for task in world.thread._tasks.values()}
    assert shares == {MOST_BUFFERED_BYTES // 2}
    world.driver.assign("0_1")
    world.turn_until(lambda: [each.task for each in world.driver.last_report.tasks] == ["0_1"])
    assert world.thread._tasks["0_1"].input.most_bytes == MOST_BUFFERED_BYTES


def test_positions_that_moved_over_markers_only_are_committed_after_a_second(world: World) -> None:
    task = world.task("0_0")
    running(world, "0_0")
    world.turn_for(2.0)
    world.reader.put(("in", 0), marker=True)
    assert 0.9 < world.turn_until(lambda: task.committed["in", 0] == 1) < 1.2
    assert task.batches == [0]


def test_nothing_to_do_is_no_batch(world: World) -> None:
    task = world.task("0_0")
    running(world, "0_0")
    world.turn_for(30.0)
    assert task.batches == []


def test_offsets_are_committed_again_before_the_broker_lets_them_expire(world: World) -> None:
    world.recommit_s = 100.0
    task = world.task("0_0")
    running(world, "0_0")
    world.turn_for(1.5)
    # Of those before this start the age is unknown.
    assert task.recommits == 1
    world.turn_for(97.0)
    assert task.recommits == 1
    world.turn_for(5.0)
    assert task.recommits == 2


def test_inputs_are_merged_by_time_and_wait_for_what_the_broker_still_has_of_one(world: World) -> None:
    task = world.task("0_0", "a", "b")
    world.reader.put(("a", 0), 10, 30)
    world.reader.put(("b", 0), 20, 40)
    running(world, "0_0")
    world.turn_until(lambda: len(task.processed) == 4)
    assert task.processed == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]
    world.reader.hides_end = True
    world.reader.put(("a", 0), 50)
    world.turn_for(2.0)
    # Of a there may be more before 60, and of b nothing is known behind its end: a's own last record is certain.
    assert task.processed[-1] == ("a", 2)
    world.reader.put(("b", 0), 45)
    world.turn_for(2.0)
    assert task.processed[-1] == ("a", 2)
    world.reader.hides_end = False
    world.reader.put(("a", 0), 70)
    world.turn_until(lambda: task.processed[-1] == ("b", 2))
    assert task.committed["a", 0] == 3
    world.reader.reported.discard(("b", 0))
    world.turn_until(lambda: task.committed["a", 0] == 4)
    assert task.processed[-2:] == [("b", 2), ("a", 3)]


def test_a_task_idles_for_producers_of_an_input_of_which_nothing_is_there(world: World) -> None:
    world.idle_s = 3.0
    task = world.task("0_0", "a", "b")
    running(world, "0_0")
    world.reader.put(("a", 0), 30)
    world.turn_for(2.0)
    assert task.processed == []
    world.reader.put(("b", 0), 20)
    world.turn_until(lambda: len(task.processed) == 1)
    assert task.processed == [("b", 0)], "a's record is not certain: b may bring another one before it"
    world.turn_for(2.0)
    assert len(task.processed) == 1
    world.turn_for(2.0)
    assert task.processed == [("b", 0), ("a", 0)]


def test_a_punctuation_is_called_when_it_is_due_without_any_record(world: World) -> None:
    task = world.task("0_0")
    due = world.clock() + 3
    task.next_punctuation_ms = int(due * 1000)
    running(world, "0_0")
    world.turn_for(2.0)
    assert task.batches == []
    world.turn_until(lambda: task.punctuated_at)
    assert 0 <= task.punctuated_at[0] - due < 0.06
    world.turn_for(9.0)
    assert task.batches == [0]
    world.turn_for(2.0)
    assert task.batches == [0, 0]


def test_one_task_is_processed_while_another_one_commits(world: World) -> None:
    first, second = world.task("0_0"), world.task("0_1")
    running(world, "0_0", "0_1")
    world.executor.at_once = False
    world.reader.put(("in", 0), 1)
    world.turn_until(lambda: len(world.executor.queued) == 1)
    world.reader.put(("in", 1), 1)
    world.turn_until(lambda: len(world.executor.queued) == 2)
    assert not first.processed
    assert not second.processed
    world.executor.run_all()
    assert first.processed
    assert second.processed


def test_two_batches_of_one_task_never_run_at_a_time(world: World) -> None:
    task = world.task("0_0")
    running(world, "0_0")
    world.executor.at_once = False
    world.reader.put(("in", 0), 1)
    world.turn_until(lambda: world.executor.queued)
    world.reader.put(("in", 0), 2)
    world.turn_for(3.0)
    assert len(world.executor.queued) == 1
    world.executor.at_once = True
    world.executor.run_all()
    world.turn_until(lambda: task.committed["in", 0] == 2)
    assert task.processed == [("in", 0), ("in", 1)]


def test_a_task_that_another_thread_gets_is_released_behind_its_commit_and_the_others_go_on(world: World) -> None:
    moved, stays = world.task("0_0"), world.task("0_1")
    running(world, "0_0", "0_1")
    world.executor.at_once = False
    world.reader.put(("in", 0), 1)
    world.turn_until(lambda: world.executor.queued)
    world.driver.assign("0_1")
    world.turn_for(0.5)
    assert {each.task for each in world.driver.last_report.tasks} == {"0_0", "0_1"}
    world.executor.at_once = True
    world.executor.run_all()
    world.turn_until(lambda: [each.task for each in world.driver.last_report.tasks] == ["0_1"])
    assert world.driver.last_report.generation == 2
    assert moved.committed["in", 0] == 1
    assert not moved.is_open
    assert ("in", 0) not in world.reader.positions
    world.reader.put(("in", 1), 1)
    world.turn_until(lambda: stays.committed["in", 1] == 1)


def test_an_older_assignment_that_comes_late_changes_nothing(world: World) -> None:
    world.task("0_0")
    world.driver.assign("0_0")
    late = world.driver.inbox.pop()
    world.driver.assign("0_0")
    world.driver.inbox.append(late)
    world.driver.inbox.append(type(late)(1, ()))
    world.turn_for(0.3)
    assert [each.task for each in world.driver.last_report.tasks] == ["0_0"]


def test_a_paused_task_says_so_behind_its_commit_and_processes_nothing_until_it_goes_on(world: World) -> None:
    task = world.task("0_0")
    running(world, "0_0")
    world.executor.at_once = False
    world.reader.put(("in", 0), 1)
    world.turn_until(lambda: world.executor.queued)
    world.driver.assign("0_0", paused=["0_0"])
    world.turn_for(0.3)
    assert state_of(world) is TaskState.RUNNING
    world.executor.at_once = True
    world.executor.run_all()
    assert world.turn_until(lambda: state_of(world) is TaskState.PAUSED) < 0.06
    world.reader.put(("in", 0), 2)
    world.turn_for(3.0)
    assert task.committed["in", 0] == 1
    world.driver.assign("0_0")
    assert world.turn_until(lambda: task.committed["in", 0] == 2) < 0.06


def test_an_action_runs_between_two_commits_and_its_answer_is_told(world: World) -> None:
    world.task("0_0")
    world.task("0_1")
    running(world, "0_0", "0_1")
    world.driver.inbox.append(Act(7, "look", {"at": 1}, ("0_0", "0_1", "0_9")))
    world.turn_until(lambda: answers(world))
    (answer,) = answers(world)
    assert answer == Answer(7, {"0_0": "0_0 did look", "0_1": "0_1 did look"}, ("0_9",))


def test_an_action_on_paused_tasks_runs_too(world: World) -> None:
    world.task("0_0")
    running(world, "0_0")
    world.driver.assign("0_0", paused=["0_0"])
    world.driver.inbox.append(Act(7, "look", {}, ("0_0",)))
    world.turn_until(lambda: answers(world))
    assert answers(world)[0].answers == {"0_0": "0_0 did look"}


def test_an_action_that_fails_is_told_and_the_task_goes_on(world: World) -> None:
    task = world.task("0_0")
    task.act_fails = StateError("It has no stores.", remedy="give it some")
    running(world, "0_0")
    world.driver.inbox.append(Act(7, "look", {}, ("0_0",)))
    world.turn_until(lambda: answers(world))
    problem = answers(world)[0].problem
    assert problem is not None
    assert (problem.kinds[0], problem.message) == ("StateError", "It has no stores.")
    world.reader.put(("in", 0), 1)
    world.turn_until(lambda: task.committed["in", 0] == 1)
    assert task.opened == 1


def test_a_commit_that_is_asked_for_does_not_wait_for_the_interval(world: World) -> None:
    task = world.task("0_0")
    running(world, "0_0")
    world.reader.put(("in", 0), 1)
    world.turn_until(lambda: task.committed["in", 0] == 1)
    world.reader.put(("in", 0), 2)
    world.turn_until(lambda: world.reader.positions["in", 0] == 2)
    world.driver.inbox.append(CommitNow(3, ("0_0",)))
    assert world.turn_until(lambda: answers(world)) < 0.06
    assert task.committed["in", 0] == 2


def test_a_task_whose_transaction_was_aborted_is_opened_again_and_loses_nothing(world: World) -> None:
    task = world.task("0_0")
    task.fails.append(TransactionAbortedError("Aborted.", remedy="none"))
    world.reader.put(("in", 0), 1, 2)
    running(world, "0_0")
    world.turn_until(lambda: task.committed["in", 0] == 2)
    assert task.opened == 2
    assert task.processed == [("in", 0), ("in", 1)]
    assert not [said for said in world.driver.said if isinstance(said, Failed)]


def test_a_task_that_keeps_failing_so_is_released_as_failed(world: World) -> None:
    task = world.task("0_0")
    task.fails.extend([TaskMigratedError("Taken.", remedy="none")] * 9)
    world.reader.put(("in", 0), 1)
    world.driver.assign("0_0")
    world.turn_until(lambda: [said for said in world.driver.said if isinstance(said, Failed)])
    (failed,) = [said for said in world.driver.said if isinstance(said, Failed)]
    assert (failed.task, failed.generation, failed.problem.kinds[0]) == ("0_0", 1, "TaskMigratedError")
    assert task.opened == 4
    world.turn_until(lambda: not world.driver.last_report.tasks)


def test_an_error_that_would_only_come_again_fails_at_once_and_the_other_tasks_go_on(world: World) -> None:
    bad, good = world.task("0_0"), world.task("0_1")
    bad.fails.append(ProcessingError("No.", remedy="fix it"))
    running(world, "0_0", "0_1")
    world.reader.put(("in", 0), 1)
    world.turn_until(lambda: [said for said in world.driver.said if isinstance(said, Failed)])
    assert bad.opened == 1
    world.reader.put(("in", 1), 1)
    world.turn_until(lambda: good.committed["in", 1] == 1)
    # The driver wants it again.
    world.driver.assign("0_0", "0_1")
    world.turn_until(lambda: bad.committed["in", 0] == 1)
    assert bad.opened == 2


def test_a_task_that_cannot_be_opened_for_the_moment_is_tried_again(world: World) -> None:
    task = world.task("0_0")
    task.open_fails.append(TransactionAbortedError("Not yet.", remedy="none"))
    world.reader.put(("in", 0), 1)
    world.driver.assign("0_0")
    world.turn_until(lambda: task.committed["in", 0] == 1)


def test_an_input_that_cannot_be_read_fails_with_what_is_behind_it(world: World) -> None:
    task, other = world.task("0_0"), world.task("0_1")
    task.explained = StateError("The topic was deleted.", remedy="reset")
    running(world, "0_0", "0_1")
    world.reader.failed = ("in", 0)
    world.reader.problem = OffsetOutOfRangeError("Gone.", remedy="reset")
    world.turn_until(lambda: [said for said in world.driver.said if isinstance(said, Failed)])
    (failed,) = [said for said in world.driver.said if isinstance(said, Failed)]
    assert failed.problem.message == "The topic was deleted."
    assert not task.is_open
    assert other.is_open
    assert other.opened == 1


def test_input_that_is_gone_because_another_attempt_committed_is_read_from_there(world: World) -> None:
    task = world.task("0_0")
    task.explained = TaskMigratedError("Another attempt has committed.", remedy="none")
    running(world, "0_0")
    task.committed["in", 0] = 1
    world.reader.put(("in", 0), 1, 2)
    world.reader.problem = OffsetOutOfRangeError("Gone.", remedy="reset")
    world.turn_until(lambda: task.committed["in", 0] == 2)
    assert task.processed == [("in", 1)]


def test_nothing_begins_behind_the_end_of_the_lease(world: World) -> None:
    task = world.task("0_0")
    running(world, "0_0")
    world.driver.lease_left_s = 0.0
    world.reader.put(("in", 0), 1)
    with pytest.raises(DriverLostError):
        world.thread.run()
    assert not task.processed
    assert world.driver.abandoned


def test_a_lost_connection_ends_the_thread_behind_what_runs(world: World) -> None:
    task = world.task("0_0")
    running(world, "0_0")
    world.reader.put(("in", 0), 1)
    world.driver.inbox.append(Ended("the driver is gone"))
    with pytest.raises(DriverLostError, match="the driver is gone"):
        world.thread.run()
    assert not task.processed
    assert world.reader.closed


def test_the_end_of_an_epoch_leaves_the_tasks_open_and_says_goodbye_behind_the_last_report(world: World) -> None:
    task = world.task("0_0")
    running(world, "0_0")
    world.reader.put(("in", 0), 1)
    world.turn_until(lambda: task.committed["in", 0] == 1)
    world.driver.inbox.append(End("the epoch is over"))
    assert world.thread.run() == "the epoch is over"
    assert world.driver.left == "the epoch is over"
    assert task.is_open
    assert world.reader.closed
    reported = [
        line
        for said in world.driver.said
        if isinstance(said, Report)
        for each in said.tasks
        for line in each.statistics
    ]
    assert reported == ["0_0 0 0", "0_0 1 0"]


def test_what_a_task_did_before_it_is_released_is_reported(world: World) -> None:
    task = world.task("0_0")
    running(world, "0_0")
    world.reader.put(("in", 0), 1)
    world.turn_until(lambda: task.committed["in", 0] == 1)
    world.driver.assign()
    world.turn_until(lambda: not world.driver.last_report.tasks)
    reported = [
        line
        for said in world.driver.said
        if isinstance(said, Report)
        for each in said.tasks
        for line in each.statistics
    ]
    assert reported == ["0_0 0 0", "0_0 1 0"]


def test_an_unknown_task_is_told_as_failed(world: World) -> None:
    world.driver.assign("0_5")
    world.turn_until(lambda: [said for said in world.driver.said if isinstance(said, Failed)])
    assert world.driver.said[0].problem.message == "0_5 is not known."


def test_the_copies_that_the_driver_names_are_kept_reported_and_closed_in_the_end(world: World) -> None:
    world.task("0_0")
    world.driver.assign("0_0", standbys=["1_0", "1_1"])
    world.turn_until(lambda: any(isinstance(said, Report) for said in world.driver.said))
    assert world.standbys.kept == [("1_0", "1_1")]
    assert world.driver.last_report.standbys == (StandbyReport("1_0", 7, 0), StandbyReport("1_1", 7, 0))
    world.task("1_0")
    began: list[tuple[str, ...]] = []
    opening = world.tasks["1_0"].open

    def open_it() -> BatchOutcome:
        began.append(world.standbys.kept[-1])
        outcome: BatchOutcome = opening()
        return outcome

    world.tasks["1_0"].open = open_it
    world.driver.assign("0_0", "1_0", standbys=["1_1"])
    world.turn_until(lambda: began)
    assert began == [("1_1",)], "a copy is given back before its task is opened"
    world.driver.inbox.append(End("enough"))
    world.thread.run()
    assert world.standbys.is_closed
