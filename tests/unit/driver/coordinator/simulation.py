"""Stream threads, their connections and the broker's fences around the real coordinator, without time or sockets."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from millrace.driver.coordinator.coordinator import Coordinator, CoordinatorSettings
from millrace.driver.coordinator.effects import CheckDead, Close, Fence, Send, TaskFailed
from millrace.errors import StateError
from millrace.spark.stream_threads.messages import (
    Assign,
    End,
    Failed,
    FromDriver,
    FromThread,
    Goodbye,
    HeldState,
    HeldTask,
    Hello,
    Report,
    TaskReport,
    TaskState,
)
from millrace.spark.stream_threads.problems import problem_of


@dataclass
class HeldBySim:
    """A task that a simulated thread has: opened with which number of the transactional id, if it is.

    One that was opened after the driver had lost the thread was on its way to it: it is fenced when the next one opens
    the task, and not before.
    """

    fence: int | None = None
    opened_unseen: bool = False
    paused: bool = False
    leaving: bool = False


@dataclass
class SimThread:
    """A stream thread as the product's loop behaves, one step at a time."""

    hello: Hello
    connection: int
    inbox: list[FromDriver] = field(default_factory=list)
    seen: list[FromDriver] = field(default_factory=list)
    outbox: list[FromThread] = field(default_factory=list)
    sent: list[FromThread] = field(default_factory=list)
    tasks: dict[str, HeldBySim] = field(default_factory=dict)
    generation: int = 0
    sequence: int = 0
    ending: bool = False
    process_lives: bool = True
    loop_runs: bool = True
    driver_has_closed: bool = False
    closed_at: float = 0.0


class World:
    """Everything around the coordinator."""

    def __init__(self, *, tasks: int, slots: int, fences: bool = True, most_moves: int = 4) -> None:
        self.now = 1000.0
        self.slots = slots
        self.settings = CoordinatorSettings(application="app", fences=fences, most_moves=most_moves, standby_replicas=1)
        self.coordinator = Coordinator(self.settings, lambda: self.now)
        self.threads: list[SimThread] = []
        self.fence_numbers = Counter[str]()
        self.fencing: list[Fence] = []
        self.failed: list[str] = []
        self.unhandled: set[str] = set()
        self.connections = 0
        self.processes = 0
        self.epoch = 0
        self.epoch_is_over = False
        self.attempts = Counter[tuple[int, int]]()
        self.names = [f"{number % 2}_{number // 2}" for number in range(tasks)]
        self.do(lambda: self.coordinator.add_tasks(dict.fromkeys(self.names, "plan"), has_copies=True))
        self.begin_epoch()

    # The driver's side

    def do(self, event) -> None:
        """An event of the coordinator, and the effects of it."""
        event()
        for effect in self.coordinator.take_effects():
            if isinstance(effect, Send):
                self._send(effect)
            elif isinstance(effect, Close):
                self._close(effect.connection)
            elif isinstance(effect, Fence):
                self.fencing.append(effect)
            elif isinstance(effect, TaskFailed):
                self.failed.append(effect.task)
            elif isinstance(effect, CheckDead):
                thread = next(each for each in reversed(self.threads) if each.hello == effect.hello)
                if not thread.process_lives:
                    self.do(lambda thread=thread: self.coordinator.process_ended(thread.hello.thread))

    def _send(self, effect: Send) -> None:
        receiver = self.on(effect.connection)
        if receiver is None or receiver.driver_has_closed:
            return
        if isinstance(effect.message, Assign):
            given = {each.task for each in effect.message.tasks}
            before = [each for each in receiver.seen + receiver.inbox if isinstance(each, Assign)]
            known = {each.task for each in before[-1].tasks} if before else set()
            assert not given & {each.task for each in effect.message.standbys}, "a copy of its own task"
            for task in given - known:
                self._check_given(task, receiver)
        receiver.inbox.append(effect.message)

    def _check_given(self, task: str, receiver: SimThread) -> None:
        for other in self.threads:
            if other is receiver or other.hello.thread == receiver.hello.thread:
                continue
            assert not self.can_commit(other, task) or (self.settings.fences and other.tasks[task].opened_unseen), (
                f"{task} is given to {receiver.hello.thread}, and {other.hello.thread} may commit it"
            )
            if other.process_lives and other.loop_runs and not other.driver_has_closed:
                assert task not in other.tasks, f"{task} is given away, and {other.hello.thread} has not released it"
                late = [each for each in other.seen + other.inbox if isinstance(each, Assign)]
                coming = [each for each in late if each.generation > other.generation]
                assert not any(task in {given.task for given in each.tasks} for each in coming), (
                    f"{task} is given away, and on its way to {other.hello.thread}"
                )

    def _close(self, connection: int) -> None:
        thread = self.on(connection)
        if thread is not None and not thread.driver_has_closed:
            thread.driver_has_closed, thread.closed_at = True, self.now

    def on(self, connection: int) -> SimThread | None:
        return next((each for each in self.threads if each.connection == connection), None)

    def begin_epoch(self) -> None:
        number: list[int] = []
        self.do(lambda: number.append(self.coordinator.begin_epoch(self.slots)))
        self.epoch, self.epoch_is_over = number[0], False

    def end_epoch(self) -> None:
        self.epoch_is_over = True
        self.do(lambda: self.coordinator.end_epoch("an hour is over"))

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for thread in self.threads:
            # What the lease of a connection is for, and the silence that ends it.
            if thread.driver_has_closed and self.now >= thread.closed_at + self.settings.lease_s:
                self.stop_loop(thread)
        self.do(self.coordinator.tick)

    def finish_fence(self, *, works: bool = True) -> None:
        fence = self.fencing.pop(0)
        # The driver does without the broker where the process of the thread has ended.
        lives = any(each.process_lives for each in self.threads if each.hello.thread == fence.hello.thread)
        if works or not lives:
            self.fence_numbers.update(fence.tasks if lives else ())
            self.do(lambda: self.coordinator.fenced(fence.tasks))
        else:
            self.do(lambda: self.coordinator.not_fenced(fence.tasks, "no broker answers"))

    def cut(self, thread: SimThread) -> None:
        """The driver sees the end of a connection, the thread does not yet."""
        if not thread.driver_has_closed:
            thread.driver_has_closed, thread.closed_at = True, self.now
            self.do(lambda: self.coordinator.left(thread.connection, "cut"))

    # The threads' side

    def can_commit(self, thread: SimThread, task: str) -> bool:
        held = thread.tasks.get(task)
        if held is None or held.fence is None or not thread.process_lives or not thread.loop_runs:
            return False
        return held.fence == self.fence_numbers[task] or not self.settings.fences

    def busy_slots(self) -> set[int]:
        return {each.hello.slot for each in self.threads if each.loop_runs and each.hello.epoch == self.epoch}

    def start(self, slot: int, *, in_process_of: SimThread | None = None) -> SimThread:
        if in_process_of is None:
            self.processes += 1
        process = self.processes if in_process_of is None else in_process_of.hello.pid
        self.connections += 1
        held = () if in_process_of is None else tuple(HeldTask(task, HeldState.OPEN) for task in in_process_of.tasks)
        hello = Hello(
            application="app",
            run="7",
            epoch=self.epoch,
            slot=slot,
            attempt=self.attempts[self.epoch, slot],
            host=f"h{process % 3}",
            pid=process,
            process_start=1,
            cores=1.0,
            held=held,
        )
        self.attempts[self.epoch, slot] += 1
        thread = SimThread(hello, self.connections)
        self.threads.append(thread)
        self.do(lambda: self.coordinator.joined(thread.connection, hello))
        return thread

    def take(self, thread: SimThread, message: FromDriver) -> None:
        thread.seen.append(message)
        if isinstance(message, End):
            thread.ending = True
        elif isinstance(message, Assign) and message.generation > thread.generation:
            thread.generation = message.generation
            wanted = {each.task: each for each in message.tasks}
            for task, held in thread.tasks.items():
                held.leaving = task not in wanted
                held.paused = not held.leaving and wanted[task].paused
            for task, assignment in wanted.items():
                thread.tasks.setdefault(task, HeldBySim(paused=assignment.paused))

    def work(self, thread: SimThread, task: str) -> None:
        """One step of one task: it is opened, or handed over."""
        held = thread.tasks.get(task)
        if held is None:
            return
        if held.leaving:
            del thread.tasks[task]
        elif held.fence is None:
            self.fence_numbers[task] += 1
            held.fence = self.fence_numbers[task]
            held.opened_unseen = thread.driver_has_closed

    def fail(self, thread: SimThread, task: str) -> None:
        if thread.tasks.pop(task, None) is not None:
            thread.outbox.append(Failed(task, thread.generation, problem_of(StateError(task))))

    def report(self, thread: SimThread, *, and_has: tuple[str, ...] = ()) -> None:
        thread.sequence += 1
        states = {
            task: TaskState.OPENING
            if held.fence is None
            else TaskState.PAUSED
            if held.paused and not held.leaving
            else TaskState.RUNNING
            for task, held in thread.tasks.items()
        }
        states |= dict.fromkeys(and_has, TaskState.RUNNING)
        tasks = tuple(TaskReport(task, state) for task, state in states.items())
        thread.outbox.append(Report(thread.sequence, thread.generation, tasks))

    def leave_if_asked(self, thread: SimThread) -> None:
        if thread.ending and thread.loop_runs:
            # Everything is committed; the tasks may stay open in the process, where nothing processes them.
            thread.outbox.append(Goodbye("told to"))
            thread.loop_runs = False

    def stop_loop(self, thread: SimThread) -> None:
        thread.loop_runs = False

    def deliver(self, thread: SimThread, message: FromThread) -> None:
        thread.sent.append(message)
        if not thread.driver_has_closed:
            self.do(lambda: self.coordinator.received(thread.connection, message))

    def kill(self, thread: SimThread) -> None:
        thread.process_lives = thread.loop_runs = False
        self.cut(thread)

    # Quiet

    def settle(self) -> None:
        """Nothing is lost any more, nothing fails, and every slot has its thread."""
        if self.epoch_is_over:
            self.begin_epoch()
        for thread in self.threads:
            if thread.driver_has_closed:
                self.stop_loop(thread)
        for step in range(60):
            self.quiet_moment(spark_starts=True)
            while self.fencing:
                self.finish_fence()
            if self.failed:
                failed, self.failed = self.failed, []
                self.do(
                    lambda failed=failed: self.coordinator.add_tasks(dict.fromkeys(failed, "plan"), has_copies=True)
                )
            if not self.problems():
                return
            self.pass_time(1.0 if step < 40 else 30.0)
        raise AssertionError(f"it does not settle: {self.problems()}, {self.coordinator.reason}")

    def quiet_moment(self, *, spark_starts: bool) -> None:
        """Everything that was said arrives, and is done."""
        for slot in sorted(set(range(self.slots)) - self.busy_slots()) if spark_starts else []:
            self.start(slot)
        for thread in self.threads:
            self._settle_thread(thread)

    def _settle_thread(self, thread: SimThread) -> None:
        while thread.inbox and thread.loop_runs:
            self.take(thread, thread.inbox.pop(0))
        if thread.loop_runs:
            for task in list(thread.tasks):
                self.work(thread, task)
            self.leave_if_asked(thread)
        if thread.loop_runs:
            self.report(thread)
        while thread.outbox:
            self.deliver(thread, thread.outbox.pop(0))
        if not thread.loop_runs and not thread.driver_has_closed:
            self.cut(thread)

    def problems(self) -> list[str]:
        """What is not as it must be once all is quiet."""
        working = [each for each in self.threads if each.loop_runs and not each.driver_has_closed]
        found = []
        wanted = {task for task in self.names if task not in self.unhandled}
        for task in sorted(wanted):
            owners = [each for each in working if self.can_commit(each, task) and not each.tasks[task].leaving]
            if len(owners) != 1:
                found.append(f"{task} has {len(owners)} owners")
        counts = [len(each.tasks) for each in working] or [0]
        if max(counts) - min(counts) > 1:
            found.append(f"threads have {counts} tasks")
        if len(working) != self.slots:
            found.append(f"{len(working)} threads")
        disks = {each.hello.disk for each in working}
        for task in sorted(wanted) if not found else []:
            (owner,) = [each for each in working if task in each.tasks]
            keepers = [each for each in self.coordinator.members if task in each.standbys]
            if [each.hello.disk for each in keepers] and owner.hello.disk in {each.hello.disk for each in keepers}:
                found.append(f"{task} has its copy on its own disk")
            if len(keepers) != min(1, len(disks) - 1):
                found.append(f"{task} has {len(keepers)} copies")
        if missing := self.coordinator.members.not_open(wanted):
            found.append(f"{missing} are not known to be open")
        return found
