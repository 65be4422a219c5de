"""The coordinator's state machine, without sockets: it takes events, and returns the effects that they should have.

* A task has one thread at most: it is given to another one only once its thread has been seen to release it, or that
  thread can commit nothing of it any more: its process is gone, its transactional id was taken over, or, where there is
  none, its lease has ended. Until then the task is *lost*.
* What a thread has is decided by complete sets on both sides (see ``messages``), so a message that comes late, twice or
  never, or from a connection that has ended, changes nothing but the time it takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import structlog

from millrace.driver.coordinator.assignment import assign, exchange_for_load
from millrace.driver.coordinator.commands import Commands, Outcome
from millrace.driver.coordinator.effects import Close, Effect, Heard, Send, TaskFailed
from millrace.driver.coordinator.epoch import Epoch
from millrace.driver.coordinator.loads import Loads
from millrace.driver.coordinator.lost_tasks import LostTasks
from millrace.driver.coordinator.members import Grant, Member, Members
from millrace.driver.coordinator.standby_assignment import Disk, assign_standbys
from millrace.spark.stream_threads.messages import (
    Act,
    Answer,
    CommitNow,
    End,
    Failed,
    FromDriver,
    FromThread,
    Goodbye,
    Hello,
    Report,
)
from millrace.spark.stream_threads.problems import error_of

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class CoordinatorSettings:
    """The settings of the coordinator.

    Args:
        application: the application id, for the log.
        fences: whether tasks have transactional ids, which can be taken over.
        join_wait_s: how long the first thread of an epoch waits for the others, seconds.
        lease_s: how long a thread may process after its last message that was seen, seconds.
        hand_over_limit_s: how long a thread may take to apply an ``Assign``, after its running work, seconds. Kafka's
            ``max.poll.interval.ms`` says the same of a consumer.
        resend_s: after how long an ``Assign`` that a thread does not know is sent again, seconds.
        most_moves: most tasks that are on their way between threads.
        load_interval_s: how often the load is looked at, seconds.
        standby_replicas: standby copies of each task, on other disks than its own.
    """

    application: str
    fences: bool
    join_wait_s: float = 5.0
    lease_s: float = 20.0
    hand_over_limit_s: float = 300.0
    resend_s: float = 5.0
    most_moves: int = 4
    load_interval_s: float = 60.0
    standby_replicas: int = 0


@dataclass
class _Task:
    plan: str
    paused: bool
    has_copies: bool
    failed: bool = False


class Coordinator:
    """The assignment of an application's tasks to its connected stream threads. Not thread-safe.

    Args:
        settings: how it behaves.
        clock: a monotonic clock, seconds.
    """

    def __init__(self, settings: CoordinatorSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._tasks: dict[str, _Task] = {}
        self._members = Members()
        self._lost = LostTasks(fences=settings.fences, lease_s=settings.lease_s)
        self._bound_for: dict[str, str] = {}
        """Thread that a task was taken from another one for."""
        self._holders: dict[str, str] = {}
        """Thread that each task was given to last, unless it was fenced since."""
        self._commands = Commands()
        self._loads = Loads(settings.load_interval_s)
        self._epoch: Epoch | None = None
        self._epochs = 0
        self._generation = 0
        self._effects: list[Effect] = []
        self._log = _log.bind(application=settings.application)

    def take_effects(self) -> list[Effect]:
        """Returns the effects since the last call, in order, and clears them."""
        taken, self._effects = self._effects, []
        return taken

    # Tasks and epochs

    def add_tasks(self, plans: Mapping[str, str], *, paused: bool = False, has_copies: bool = False) -> None:
        """Adds tasks to process, or replaces their plans and lets failed ones run again.

        Args:
            plans: digest of each task's plan.
            paused: whether they are only opened.
            has_copies: whether they have stores of which standby copies are kept.
        """
        self._tasks.update({task: _Task(plan, paused, has_copies) for task, plan in plans.items()})
        self._reconcile()

    def remove_tasks(self, tasks: Collection[str]) -> None:
        """Removes tasks: their threads hand them over, and no other thread gets them."""
        for task in tasks:
            self._tasks.pop(task, None)
        self._reconcile()

    def set_paused(self, tasks: Collection[str], *, paused: bool) -> None:
        """Makes tasks pause after their next commit, or resume."""
        for task in tasks:
            if task in self._tasks:
                self._tasks[task].paused = paused
        self._reconcile()

    def not_paused(self, tasks: Collection[str]) -> list[str]:
        """Returns the paused tasks that may still be inside a batch, without failed ones."""
        failed = {task for task, each in self._tasks.items() if each.failed}
        return self.members.not_paused(set(tasks) - failed)

    def begin_epoch(self, slots: int, *, awaited: int | None = None) -> int:
        """Begins an epoch, whose Spark tasks are launched next, and tells the threads of older epochs to leave.

        Args:
            slots: how many threads there are to be.
            awaited: how many of them are waited for before tasks are given away; ``None`` for all.

        Returns:
            the number of the epoch, which its threads say.
        """
        self._epochs += 1
        self._epoch = Epoch(self._epochs, slots, awaited=awaited or slots, wait_s=self._settings.join_wait_s)
        for member in self._members:
            self._end(member, f"epoch {member.hello.epoch} is over")
        self._reconcile()
        return self._epochs

    def end_epoch(self, reason: str) -> None:
        """Makes all threads commit and leave."""
        if self._epoch is not None:
            self._epoch.is_over = True
        for member in self._members:
            self._end(member, reason)

    # Events

    def joined(self, connection: int, hello: Hello) -> None:
        """Adds a thread that has connected."""
        now = self._clock()
        for older in self._members:
            if older.thread == hello.thread:
                # A process runs one stream thread at a time, so that one is over, whatever its connection says.
                self._effects.append(Close(older.connection, "its process has a newer connection", at_once=True))
                self._gone(older, in_order=True, reason="its process has begun again")
            elif older.hello.is_earlier_attempt_of(hello):
                self._effects.append(Close(older.connection, "Spark has started it again", at_once=True))
                self._gone(older, in_order=False, reason="Spark has started it again")
        self._lost.free_process(hello.thread)
        member = Member(connection, hello, now)
        self._members.add(member)
        epoch = self._epoch
        if epoch is None or epoch.is_over or hello.epoch != epoch.number:
            self._end(member, f"epoch {hello.epoch} is over")
            return
        epoch.joined(now)
        self._log.info("stream thread joined", thread=hello.thread, slot=hello.slot, held=len(hello.held))
        self._reconcile()

    def received(self, connection: int, message: FromThread) -> None:
        """Handles a message of a thread; ignores it if the connection has ended."""
        member = self._members.get(connection)
        if member is None:
            return
        if isinstance(message, Report):
            self._reported(member, message)
        elif isinstance(message, Failed):
            self._failed(member, message)
        elif isinstance(message, Answer):
            self._commands.answered(connection, message)
        elif isinstance(message, Goodbye):
            self._log.info("stream thread leaves", thread=member.thread, reason=message.reason)
            self._gone(member, in_order=True, reason=message.reason)
        self._reconcile()

    def left(self, connection: int, reason: str) -> None:
        """Removes the thread of an ended connection. Without a goodbye it may still process."""
        member = self._members.get(connection)
        if member is not None:
            self._log.warning("connection of a stream thread ended", thread=member.thread, reason=reason)
            self._gone(member, in_order=False, reason=reason)
        self._reconcile()

    def process_ended(self, thread: str) -> None:
        """Handles that a thread's process has certainly ended."""
        self._lost.free_process(thread)
        self._reconcile()

    def fenced(self, tasks: Collection[str]) -> None:
        """Handles that the former threads of tasks can no longer commit anything for them."""
        self._lost.free(tasks)
        for task in tasks:
            self._holders.pop(task, None)
        self._reconcile()

    def not_fenced(self, tasks: Collection[str], reason: str) -> None:
        """Handles that a fence failed for now; it is tried again."""
        self._lost.try_again(tasks, now=self._clock(), reason=reason)

    def tick(self) -> None:
        """Handles what has become due; called about once a second."""
        now = self._clock()
        self._effects += self._lost.due(now)
        for member in self._members:
            self._check_member(member, now)
        if self._loads.is_due(now):
            self._loads.measure(now, self._members)
            self._exchange()
        self._reconcile()

    # Commands

    def act(self, action: str, arguments: Mapping[str, object], tasks: Collection[str]) -> int:
        """Makes tasks execute an action between two of their commits; returns the number of the command."""
        return self._ask(tasks, lambda number, part: Act(number, action, arguments, part))

    def commit_now(self, tasks: Collection[str]) -> int:
        """Makes tasks commit what they have processed; returns the number of the command."""
        return self._ask(tasks, CommitNow)

    def _ask(self, tasks: Collection[str], message: Callable[[int, tuple[str, ...]], FromDriver]) -> int:
        asked, absent = self._members.by_connection(tasks)
        number = self._commands.begin(asked, absent)
        self._effects += [Send(connection, message(number, part)) for connection, part in asked.items()]
        return number

    def outcome(self, command: int) -> Outcome | None:
        """Returns the outcome of a command; ``None`` until all answers are there."""
        return self._commands.outcome(command)

    def end_command(self, command: int) -> tuple[str, ...]:
        """Discards a command, and returns the tasks whose answers are missing."""
        return self._commands.end(command)

    # What is known

    @property
    def members(self) -> Members:
        """The connected threads; not to be changed."""
        return self._members

    def still_with_threads(self, tasks: Collection[str]) -> list[str]:
        """Returns the tasks that a thread has, or may still have."""
        return [task for task in sorted(tasks) if task in self._lost or self._members.owner(task) is not None]

    @property
    def wanted(self) -> int:
        """The number of threads that the epoch should have; 0 before the first epoch."""
        return 0 if self._epoch is None else self._epoch.slots

    @property
    def shortage(self) -> str:
        """The message that fewer threads than wanted run; empty if all do."""
        return "" if self._epoch is None else self._epoch.shortage(len(self._members.working()))

    @property
    def reason(self) -> str:
        """The reason why tasks have no thread; empty if all have one."""
        missing = [task for task, each in self._tasks.items() if not each.failed]
        missing = self._members.without_owner(missing)
        if not missing:
            return ""
        if self._lost.reason:
            return self._lost.reason
        if self._epoch is None or self._epoch.is_over:
            return "no epoch of stream threads runs at the moment"
        return f"{len(self._members)} of {self._epoch.slots} stream threads have connected to the coordinator"

    # Inside

    def _reported(self, member: Member, report: Report) -> None:
        if report.sequence <= member.sequence:
            return
        strange = sorted({each.task for each in report.tasks} - member.grants.keys())
        if strange:
            self._intrudes(member, strange)
            return
        member.sequence = report.sequence
        member.applied = max(member.applied, report.generation)
        member.note_timing(self._clock(), report.timing)
        for task in member.released_by(report):
            self._release(member, task)
        for each in report.tasks:
            grant = member.grants[each.task]
            grant.report = each
            grant.was_moved &= not grant.is_open
        member.copies = {each.task: each for each in report.standbys}
        self._effects.append(Heard(member.hello, report))

    def _intrudes(self, member: Member, tasks: list[str]) -> None:
        """Fences a thread that reports tasks it was not given, since none of its reports can be trusted."""
        self._log.error("stream thread has tasks that it was not given: fenced", thread=member.thread, tasks=tasks)
        self._effects.append(Close(member.connection, "it has tasks that it was not given", at_once=True))
        # One with another thread was fenced, or is, when that thread opened it.
        free = self._members.without_owner(tasks)
        self._gone(member, in_order=False, reason="it had tasks that it was not given", also=free)

    def _failed(self, member: Member, message: Failed) -> None:
        grant = member.grants.get(message.task)
        if grant is None or not grant.is_known_at(message.generation):
            return
        was_leaving = grant.leaving_since is not None
        self._release(member, message.task)
        error = error_of(message.problem)
        self._log.warning("task failed", task=message.task, thread=member.thread, reason=error.message)
        task = self._tasks.get(message.task)
        if task is not None and not was_leaving:
            task.failed = True
            self._effects.append(TaskFailed(message.task, error))

    def _release(self, member: Member, task: str) -> None:
        del member.grants[task]
        self._loads.discard(task)

    def _gone(self, member: Member, *, in_order: bool, reason: str, also: Collection[str] = ()) -> None:
        self._members.remove(member.connection)
        self._commands.connection_ended(member.connection)
        now = self._clock()
        if self._epoch is not None and member.hello.epoch == self._epoch.number:
            self._epoch.left(now, remaining=len(self._members.working()))
        if not in_order:
            self._lost.add([*member.grants, *also], member.hello, now=now, reason=reason)
            self._effects += self._lost.due(now)
        member.grants.clear()

    def _check_member(self, member: Member, now: float) -> None:
        limit_s, since = self._settings.hand_over_limit_s, member.waited_for_since
        if since is not None and now - since > limit_s:
            reason = f"it has not done what it was told {limit_s:g} s ago"
            self._effects.append(Close(member.connection, reason, at_once=True))
            self.left(member.connection, reason)
        elif member.is_behind and member.sent is not None and now - member.resent_at > self._settings.resend_s:
            member.resent_at = now
            self._effects.append(Send(member.connection, member.sent))

    def _end(self, member: Member, reason: str) -> None:
        if member.ending_since is None:
            member.ending_since = self._clock()
            self._effects.append(Send(member.connection, End(reason)))

    def _assigns_tasks(self) -> bool:
        epoch = self._epoch
        return epoch is not None and epoch.assigns_tasks(self._clock(), len(self._members.working()))

    def _reconcile(self) -> None:
        for member in self._members:
            for task, grant in member.grants.items():
                if task not in self._tasks and grant.leaving_since is None:
                    grant.leaving_since = self._clock()
        if self._assigns_tasks():
            self._distribute()
            self._distribute_standbys()
        for member in self._members.working():
            self._send_assignment(member)

    def _wanted(self) -> tuple[dict[str, float], dict[str, str]]:
        """Returns the load of each task that should be processed, and the thread that has it or gets it next."""
        tasks = {task: self._loads.of(task) for task, each in self._tasks.items() if not each.failed}
        owners = {task: each.thread for each in self._members.working() for task in each.grants if task in tasks}
        working = {each.thread for each in self._members.working()}
        self._bound_for = {
            task: thread for task, thread in self._bound_for.items() if task in tasks and thread in working
        }
        return tasks, owners | self._bound_for

    def _distribute(self) -> None:
        tasks, current = self._wanted()
        by_name = {each.thread: each for each in self._members.working()}
        assigned = assign(tasks, [each.candidate(self._holders) for each in by_name.values()], current)
        for task in self._members.without_owner(sorted(assigned)):
            if task not in self._lost:
                self._grant(task, by_name[assigned[task]], was_moved=self._bound_for.pop(task, None) is not None)
        moving = self._moving()
        for task, name in sorted(assigned.items()):
            owner = self._members.owner(task)
            if owner is None:
                continue
            if owner.thread == name:
                self._bound_for.pop(task, None)
            elif owner.grants[task].leaving_since is not None or owner.ending_since is not None:
                self._bound_for[task] = name
            elif moving < self._settings.most_moves:
                moving += 1
                self._bound_for[task] = name
                owner.grants[task].leaving_since = self._clock()
                self._log.info("task is handed over", task=task, thread=owner.thread, to=name)

    def _distribute_standbys(self) -> None:
        copied = [task for task, each in self._tasks.items() if each.has_copies and not each.failed]
        if not self._settings.standby_replicas or not copied:
            return
        working = {each.thread: each for each in self._members.working()}
        current = {task: [name for name, each in working.items() if task in each.standbys] for task in copied}
        assigned = assign_standbys(
            {task: self._disk_of(task, working) for task in copied},
            [each.candidate(self._holders) for each in working.values()],
            {name: each.hello.disk for name, each in working.items()},
            current,
            replicas=self._settings.standby_replicas,
        )
        for name, member in working.items():
            member.standbys = frozenset(task for task, names in assigned.items() if name in names)

    def _disk_of(self, task: str, working: Mapping[str, Member]) -> Disk | None:
        """Returns the disk of the thread that has a task, or gets it next."""
        owner = self._members.owner(task)
        if (bound := working.get(self._bound_for.get(task, ""))) is not None:
            owner = bound if owner is None else owner
        return None if owner is None else owner.hello.disk

    def _moving(self) -> int:
        """Returns the number of tasks that are moving between threads."""
        return sum(
            grant.leaving_since is not None or grant.was_moved
            for each in self._members
            for grant in each.grants.values()
        )

    def _exchange(self) -> None:
        """Moves one task, or exchanges two, if the load is uneven and no other task is moving."""
        tasks, current = self._wanted()
        if self._moving() or self._lost or not self._assigns_tasks() or current.keys() != tasks.keys():
            return
        candidates = [each.candidate(self._holders) for each in self._members.working()]
        changed = exchange_for_load(tasks, current, candidates)
        if changed:
            self._log.info("tasks change threads for an even load", tasks=changed)
        self._bound_for.update(changed)

    def _grant(self, task: str, member: Member, *, was_moved: bool) -> None:
        wanted = self._tasks[task]
        is_stale = self._holders.get(task) != member.thread
        self._holders[task] = member.thread
        member.grants[task] = Grant(wanted.plan, wanted.paused, is_stale=is_stale, was_moved=was_moved)

    def _send_assignment(self, member: Member) -> None:
        assign = member.next_assign(
            self._generation + 1, {task: (each.plan, each.paused) for task, each in self._tasks.items()}
        )
        if assign is not None:
            self._generation = assign.generation
            member.sent = assign
            member.sent_at = member.resent_at = self._clock()
            self._effects.append(Send(member.connection, assign))
