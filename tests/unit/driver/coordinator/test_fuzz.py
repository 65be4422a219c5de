"""Messages of stream threads are lost, late, doubled, out of order, or of a connection that has ended.

The simulation checks at each ``Assign`` that no other thread can commit a task that it gives (``World._check_given``).
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.unit.driver.coordinator.simulation import SimThread, World

NUMBERS = st.integers(0, 1 << 16)


class Fuzz(RuleBasedStateMachine):
    fences = True
    world: World

    @initialize(tasks=st.integers(1, 9), slots=st.integers(1, 4), most_moves=st.integers(1, 4))
    def begin(self, tasks, slots, most_moves):
        self.world = World(tasks=tasks, slots=slots, fences=self.fences, most_moves=most_moves)

    def pick(self, number: int, threads: list[SimThread] | None = None) -> SimThread | None:
        found = [each for each in self.world.threads if each.loop_runs] if threads is None else threads
        return found[number % len(found)] if found else None

    @rule(spark_starts=st.booleans(), seconds=st.sampled_from([0.0, 1.0, 6.0]))
    def a_moment_without_trouble(self, spark_starts, seconds):
        self.world.quiet_moment(spark_starts=spark_starts)
        self.world.pass_time(seconds)

    @rule(number=NUMBERS, again=st.booleans())
    def spark_starts_a_thread(self, number, again):
        free = sorted(set(range(self.world.slots)) - self.world.busy_slots())
        if free:
            idle = [
                each
                for each in self.world.threads
                if each.process_lives
                and not any(other.loop_runs for other in self.world.threads if other.hello.thread == each.hello.thread)
            ]
            process = self.pick(number, idle) if again else None
            self.world.start(free[number % len(free)], in_process_of=process)

    @rule(number=NUMBERS)
    def spark_starts_a_thread_whose_older_attempt_still_runs(self, number):
        older = self.pick(number)
        if older is not None and older.hello.epoch == self.world.epoch:
            self.world.start(older.hello.slot)

    @rule(number=NUMBERS, which=NUMBERS)
    def a_thread_hears_something(self, number, which):
        thread = self.pick(number)
        if thread is not None and thread.inbox:
            self.world.take(thread, thread.inbox.pop(0 if which % 3 else which % len(thread.inbox)))

    @rule(number=NUMBERS, which=NUMBERS)
    def a_thread_hears_something_again(self, number, which):
        thread = self.pick(number)
        if thread is not None and thread.seen:
            self.world.take(thread, thread.seen[which % len(thread.seen)])

    @rule(number=NUMBERS)
    def something_does_not_reach_a_thread(self, number):
        thread = self.pick(number)
        if thread is not None and thread.inbox:
            thread.seen.append(thread.inbox.pop(0))

    @rule(number=NUMBERS, which=NUMBERS)
    def a_task_is_opened_or_handed_over(self, number, which):
        thread = self.pick(number)
        if thread is not None and thread.tasks:
            self.world.work(thread, sorted(thread.tasks)[which % len(thread.tasks)])

    @rule(number=NUMBERS)
    def a_thread_reports(self, number):
        thread = self.pick(number)
        if thread is not None:
            self.world.report(thread)

    @rule(number=NUMBERS, which=NUMBERS)
    def the_driver_hears_something(self, number, which):
        thread = self.pick(number, [each for each in self.world.threads if each.outbox])
        if thread is not None:
            self.world.deliver(thread, thread.outbox.pop(0 if which % 3 else which % len(thread.outbox)))

    @rule(number=NUMBERS, which=NUMBERS)
    def the_driver_hears_something_again(self, number, which):
        thread = self.pick(number, [each for each in self.world.threads if each.sent])
        if thread is not None:
            self.world.deliver(thread, thread.sent[which % len(thread.sent)])

    @rule(number=NUMBERS)
    def something_does_not_reach_the_driver(self, number):
        thread = self.pick(number, [each for each in self.world.threads if each.outbox])
        if thread is not None:
            thread.sent.append(thread.outbox.pop(0))

    @rule(number=NUMBERS, which=NUMBERS)
    def the_driver_hears_something_of_a_connection_that_has_ended(self, number, which):
        thread = self.pick(number, [each for each in self.world.threads if each.driver_has_closed and each.sent])
        if thread is not None:
            message = thread.sent[which % len(thread.sent)]
            self.world.do(lambda: self.world.coordinator.received(thread.connection, message))

    @rule(number=NUMBERS)
    def a_process_is_killed(self, number):
        thread = self.pick(number)
        if thread is not None:
            self.world.kill(thread)

    @rule(number=NUMBERS)
    def a_connection_breaks_and_the_thread_works_on(self, number):
        thread = self.pick(number)
        if thread is not None:
            self.world.cut(thread)

    @rule(number=NUMBERS)
    def a_thread_sees_that_its_connection_has_ended(self, number):
        thread = self.pick(number, [each for each in self.world.threads if each.driver_has_closed and each.loop_runs])
        if thread is not None:
            self.world.stop_loop(thread)

    @rule(number=NUMBERS)
    def a_thread_leaves_when_told(self, number):
        thread = self.pick(number)
        if thread is not None:
            self.world.leave_if_asked(thread)

    @rule(number=NUMBERS, which=NUMBERS)
    def a_task_fails(self, number, which):
        thread = self.pick(number)
        if thread is not None and thread.tasks:
            self.world.fail(thread, sorted(thread.tasks)[which % len(thread.tasks)])

    @rule(number=NUMBERS, which=NUMBERS)
    def a_thread_says_that_it_has_another_task_too(self, number, which):
        thread = self.pick(number)
        if thread is not None:
            self.world.report(thread, and_has=(self.world.names[which % len(self.world.names)],))

    @precondition(lambda self: self.world.fencing)
    @rule(works=st.booleans())
    def a_fence_ends(self, works):
        self.world.finish_fence(works=works)

    @rule(seconds=st.sampled_from([0.5, 1.0, 5.0, 25.0, 301.0]))
    def time_passes(self, seconds):
        self.world.pass_time(seconds)

    @rule()
    def failed_tasks_are_given_again(self):
        failed, self.world.failed = self.world.failed, []
        self.world.do(lambda: self.world.coordinator.add_tasks(dict.fromkeys(failed, "plan"), has_copies=True))

    @rule(which=NUMBERS, paused=st.booleans())
    def a_task_is_paused_or_goes_on(self, which, paused):
        task = self.world.names[which % len(self.world.names)]
        self.world.do(lambda: self.world.coordinator.set_paused([task], paused=paused))

    @rule(which=NUMBERS)
    def a_task_is_taken_away_and_given_again(self, which):
        task = self.world.names[which % len(self.world.names)]
        self.world.do(lambda: self.world.coordinator.remove_tasks([task]))
        self.world.do(lambda: self.world.coordinator.add_tasks({task: "plan"}, has_copies=True))

    @invariant()
    def what_counts_as_paused_is_paused(self):
        for member in self.world.coordinator.members if hasattr(self, "world") else ():
            thread = self.world.on(member.connection)
            assert thread is not None
            for task in filter(member.has_paused, member.grants):
                # A task that leaves is closed as soon as nothing of it runs.
                held = thread.tasks.get(task)
                assert held is None or held.paused or held.leaving

    @rule()
    def an_epoch_ends(self):
        self.world.end_epoch()

    @rule()
    def an_epoch_begins(self):
        self.world.begin_epoch()

    def teardown(self):
        if hasattr(self, "world"):
            self.world.settle()


class FuzzWithoutFences(Fuzz):
    fences = False


@pytest.mark.parametrize("machine", [Fuzz, FuzzWithoutFences])
def test_a_task_has_one_thread_at_most_and_in_the_end_exactly_one(machine):
    run_state_machine_as_test(machine, settings=settings(max_examples=100, stateful_step_count=40, deadline=None))


FOUND = {
    "a task that is fenced is not fenced once more for a thread that says that it has it": [
        ("begin", {"tasks": 1, "slots": 2, "most_moves": 1}),
        ("a_moment_without_trouble", {"seconds": 0.0, "spark_starts": True}),
        ("a_connection_breaks_and_the_thread_works_on", {"number": 0}),
        ("a_thread_sees_that_its_connection_has_ended", {"number": 0}),
        ("a_thread_says_that_it_has_another_task_too", {"number": 0, "which": 0}),
        ("the_driver_hears_something", {"number": 0, "which": 0}),
        ("a_fence_ends", {"works": True}),
    ],
    "a task that was on its way to a lost thread is opened there after the fence": [
        ("begin", {"tasks": 1, "slots": 2, "most_moves": 1}),
        ("a_moment_without_trouble", {"seconds": 0.0, "spark_starts": True}),
        ("a_task_is_taken_away_and_given_again", {"which": 0}),
        ("a_moment_without_trouble", {"seconds": 0.0, "spark_starts": False}),
        ("a_connection_breaks_and_the_thread_works_on", {"number": 0}),
        ("a_fence_ends", {"works": True}),
        ("a_moment_without_trouble", {"seconds": 6.0, "spark_starts": False}),
    ],
    "a paused task is taken away and given again, not paused": [
        ("begin", {"tasks": 1, "slots": 1, "most_moves": 1}),
        ("a_task_is_paused_or_goes_on", {"paused": True, "which": 0}),
        ("a_moment_without_trouble", {"seconds": 0.0, "spark_starts": True}),
        ("a_task_is_taken_away_and_given_again", {"which": 0}),
        ("a_thread_hears_something", {"number": 0, "which": 0}),
    ],
}


@pytest.mark.parametrize("steps", FOUND.values(), ids=FOUND)
def test_what_was_found_once_settles(steps):
    machine = Fuzz()
    for name, arguments in steps:
        getattr(machine, name)(**arguments)
        machine.what_counts_as_paused_is_paused()
    machine.teardown()
