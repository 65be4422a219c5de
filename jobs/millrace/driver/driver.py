"""The driver of one application: starts it, keeps it running, publishes its status, ends it."""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, TypeVar

import structlog

from millrace.driver.barrier import between_batches
from millrace.driver.broker_retries import retry_until_answered
from millrace.driver.control_plane import serving
from millrace.driver.driver_operations import TaskGate
from millrace.driver.driver_options import DriverHooks, DriverSettings, ExitCode
from millrace.driver.ending import ENDED_FILE, write_ending
from millrace.driver.fencing import end_fenced
from millrace.driver.health import Health, assess
from millrace.driver.lifecycle import ApplicationState, Lifecycle
from millrace.driver.periodic import Periodic
from millrace.driver.query import Query, is_alive
from millrace.driver.reasons import reason_of
from millrace.driver.reporter import Application, Prepared, Publisher, StatusReporter
from millrace.driver.server import ControlSurface
from millrace.driver.status import ApplicationStatus
from millrace.driver.supervisor import QuerySupervisor
from millrace.errors import (
    BrokerUnavailableError,
    DriverFencedError,
    MillraceError,
    OffsetsMovedError,
    OperationError,
    PreflightError,
    StateError,
    TransactionAbortedError,
)

log = structlog.get_logger(__name__)

_State = ApplicationState

T = TypeVar("T")

_HEARTBEAT_PAUSE_S = 1.0
_CONFIRM_ATTEMPTS = 3
_FENCED_THREADS_S = 0.2
"""How long a fenced driver waits for each of its threads, seconds."""

_SHORTEST_TICK_S = 0.02
"""Least time between two heartbeats that batches ask for, seconds."""


class Driver:
    """The driver of one application, until it is stopped, fails for good, or a newer driver takes over.

    A crash at any moment loses nothing: the next driver fences this one and goes on at the committed offsets.

    Args:
        application: which application it is.
        hooks: what it asks of the world.
        publisher: where its status goes; its ``open`` fences older drivers.
        settings: how it behaves.
    """

    def __init__(
        self, application: Application, hooks: DriverHooks, publisher: Publisher, settings: DriverSettings
    ) -> None:
        self._application = application
        self._hooks = hooks
        self._publisher = publisher
        self._settings = settings
        self.lifecycle = Lifecycle()
        self._reporter = StatusReporter(
            application,
            self.lifecycle,
            publisher,
            heartbeat_interval_ms=round(settings.heartbeat_interval_s * 1000),
            end_offsets=hooks.end_offsets,
            high_watermarks=hooks.high_watermarks,
            stream_threads=hooks.stream_threads,
        )
        self._supervisor: QuerySupervisor | None = None
        self._failure: BaseException | None = None
        self._fenced: DriverFencedError | None = None
        self._fencing = threading.Lock()
        self._stop_reason = ""
        # SimpleQueue.put may interrupt a get of the same thread, so a signal handler can use it.
        self._woken: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._failed_ticks: queue.SimpleQueue[tuple[Query, Exception]] = queue.SimpleQueue()
        self._pausing = threading.Lock()
        self._operating = threading.Lock()
        self._paused = False

    def run(self, *, handle_signals: bool = True) -> ExitCode:
        """Runs the application; returns when it has ended. Call it once.

        Args:
            handle_signals: whether SIGTERM and SIGINT stop it gracefully; only possible in the main thread.
        """
        threads: list[Periodic] = []
        with self._signals() if handle_signals else contextlib.nullcontext():
            try:
                with self._control_plane():
                    try:
                        self._start_unless_stopped(threads)
                        self._supervise()
                        return self._end_stopped()
                    except Exception as error:
                        # Whatever else fails once it is fenced follows from that: its jobs are cancelled.
                        return self._end_failed(self._fenced or error)
            except MillraceError as error:  # the control plane itself did not come up
                return self._end_failed(error)
            finally:
                limit_s = self._settings.stop_timeout_s if self._fenced is None else _FENCED_THREADS_S
                for thread in threads:
                    if not thread.stop(limit_s):
                        log.warning("thread did not end in time")
                self._publisher.close()

    def stop(self, reason: str = "stopped on request") -> None:
        """Requests a graceful stop and returns at once. May be called by any thread or signal handler."""
        self._stop_reason = self._stop_reason or reason
        self._woken.put(None)

    def pause(self) -> None:
        """Lets running batches finish, then processes nothing more until :meth:`resume`. Thread-safe.

        Raises:
            DriverFencedError: a newer driver has taken over.
            OperationError: a batch did not end in time; the pause is in force from its end on.
        """
        self._refuse_if_fenced()
        with self._pausing:
            self._paused = True
            self._reporter.set_paused(paused=True)
            self._pause_queries()
            self.heartbeat_now()
            with between_batches(self._queries, timeout_s=self._settings.barrier_timeout_s):
                log.info("paused", application=self._application.application_id)

    def resume(self) -> None:
        """Ends a pause. Thread-safe.

        Raises:
            DriverFencedError: a newer driver has taken over.
        """
        self._refuse_if_fenced()
        with self._pausing:
            self._paused = False
            self._reporter.set_paused(paused=False)
            for each in self._queries:
                each.resume()
            self.heartbeat_now()
            log.info("resumed", application=self._application.application_id)

    def operate(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Executes one of the named operations, one at a time. Thread-safe.

        Raises:
            DriverFencedError: a newer driver has taken over; what this one would answer is of the past.
            OperationError: there is no such operation, or the application cannot do it now.
            MillraceError: it failed.
        """
        operation = self._hooks.operations.get(name)
        if operation is None:
            raise OperationError(
                f"The driver knows no operation {name!r}.",
                remedy=f"it knows {', '.join(sorted(self._hooks.operations)) or 'none'}",
            )
        gate = TaskGate(lambda: self._queries, timeout_s=self._settings.barrier_timeout_s)
        with self._operating:
            self.heartbeat_now()
            log.info("operation begins", operation=name, application=self._application.application_id)
            answer = operation(arguments, gate)
            self._refuse_if_fenced()
            log.info("operation done", operation=name, application=self._application.application_id)
            return answer

    def status(self) -> ApplicationStatus:
        """Returns the current status."""
        return self._reporter.status()

    def health(self) -> Health:
        """Returns the current health, by the same rules as a supervisor's."""
        return assess(self.status(), now=time.time(), limits=self._settings.health)

    def before_batch(self) -> None:
        """Publishes the status before a batch begins, unless that was done a moment ago. Called by a batch's callback.

        A publication takes 30 to 65 ms, which a batch of 400 ms would feel; and it is not what protects the output: a
        newer driver fences every task before it reads an offset.

        Raises:
            DriverFencedError: a newer driver has taken over: launch nothing more.
        """
        self._refuse_if_fenced()
        if self._reporter.age_s >= _HEARTBEAT_PAUSE_S:
            self.heartbeat_now()

    def heartbeat_now(self) -> None:
        """Publishes the status. A failure is only logged, unless a newer driver has taken over.

        Raises:
            DriverFencedError: a newer driver has taken over: launch nothing more.
        """
        try:
            self.confirm_newest()
        except DriverFencedError:
            raise
        except MillraceError as error:
            # Not written is no danger: tasks are fenced by their own transactional ids.
            log.warning("heartbeat not published", problem=error.message)

    def confirm_newest(self) -> None:
        """Publishes the status, and returns once the broker has confirmed that no newer driver had taken over.

        For what no transactional id protects: deleting records, committing for other tasks.

        Raises:
            DriverFencedError: a newer driver has taken over: launch nothing more.
            MillraceError: it is not known, as nothing was written.
        """
        self._refuse_if_fenced()
        for attempt in range(1, _CONFIRM_ATTEMPTS + 1):
            try:
                self._reporter.publish()
            except DriverFencedError as error:
                self.fail(error)
                raise
            except TransactionAbortedError:
                if attempt == _CONFIRM_ATTEMPTS:
                    raise
            else:
                return

    def replanned(self, prepared: Prepared) -> None:
        """Publishes the new query plans before new tasks start, since the topics have changed.

        Raises:
            DriverFencedError: a newer driver has taken over.
        """
        self._reporter.set_prepared(prepared)
        self.heartbeat_now()

    def fail(self, error: BaseException) -> None:
        """Ends the application with ``error``. Thread-safe; the first error counts, unless a later one is a fence.

        A driver that a newer one replaced stops working here and now: jobs are cancelled, queries launch and purge
        nothing more, and its process ends within ``fenced_limit_s``.
        """
        if isinstance(error, DriverFencedError):
            self._abandon(error)
        self._failure = self._failure or error
        self._woken.put(None)

    def _abandon(self, error: DriverFencedError) -> None:
        with self._fencing:
            if self._fenced is not None:
                return
            self._fenced = self._failure = error
        for each in self._queries:
            each.abandon(error)
        end_fenced(
            self._hooks.cancel_jobs,
            self._hooks.end_process,
            exit_code=ExitCode.FENCED,
            limit_s=self._settings.fenced_limit_s,
        )
        log.error("fenced by a newer driver: all work ends", reason=error.message, remedy=error.remedy)
        self._write_ending(ExitCode.FENCED, error.message, error.remedy)

    def _refuse_if_fenced(self) -> None:
        if self._fenced is not None:
            raise self._fenced

    def _write_ending(self, code: ExitCode, reason: str, remedy: str) -> None:
        path = self._settings.control_file.with_name(ENDED_FILE)
        write_ending(path, exit_code=code, reason=reason, remedy=remedy)

    @property
    def _queries(self) -> Sequence[Query]:
        return self._reporter.prepared.queries if self._reporter.prepared else ()

    def _start_unless_stopped(self, threads: list[Periodic]) -> None:
        try:
            self._start(threads)
        except BrokerUnavailableError:
            # A stop, or a fence, that came while it waited for the broker is why it ends.
            if not self._stop_reason and self._failure is None:
                raise

    def _start(self, threads: list[Periodic]) -> None:
        self._with_retries("checking what the application needs", self._check_world)
        if self._stop_reason:
            return
        previous = self._with_retries("taking over from older drivers", self._publisher.open)
        self._reporter.set_previous(previous)
        doing = "fencing older attempts and reading committed offsets"
        self._move(_State.REBALANCING, doing)
        threads.append(Periodic("heartbeat", self._settings.heartbeat_interval_s, self._beat, self._heartbeat_failed))
        threads[-1].start()
        # A driver that slept here would take over from its successor: it asks before each step that cannot be fenced.
        ids = previous.transactional_ids if previous else []
        self._with_retries(doing, lambda: self._if_newest(lambda: self._hooks.fence(ids)))
        prepared = self._with_retries(doing, lambda: self._if_newest(lambda: self._hooks.prepare(previous)))
        # Before any task starts: what the next driver has to fence must be known.
        with self._pausing:
            self._reporter.set_prepared(prepared)
            if self._fenced is not None:
                raise self._fenced
            if self._paused:
                self._pause_queries()
        self._with_retries("starting queries", self._hooks.warm_up)
        if self._stop_reason or self._failure:
            return
        self._supervisor = QuerySupervisor(
            prepared.queries,
            self._settings.restart,
            stop_timeout_s=self._settings.stop_timeout_s,
            on_restart=self._query_restarts,
        )
        self._supervisor.start()
        threads.append(Periodic("ticker", self._until_tick_s, self._tick_idle_queries, self.fail))
        threads[-1].start()

    def _if_newest(self, call: Callable[[], T]) -> T:
        self.confirm_newest()
        return call()

    def _check_world(self) -> None:
        self._hooks.preflight()
        self._refuse_live_members()

    def _with_retries(self, doing: str, call: Callable[[], T]) -> T:
        """Executes a step of the start, and repeats it while no broker answers. The status says what it waits for."""

        def wait(seconds: float) -> bool:
            with contextlib.suppress(queue.Empty):
                self._woken.get(timeout=seconds)
            return bool(self._stop_reason or self._failure)

        def report_retry(error: BrokerUnavailableError) -> None:
            self._move(_State.REBALANCING, f"{doing}: waiting for the broker: {error.message}", error.remedy)

        self._move(_State.REBALANCING, doing)
        return retry_until_answered(call, limit_s=self._settings.broker_timeout_s, on_wait=report_retry, wait=wait)

    def _supervise(self) -> None:
        while True:
            if self._failure is not None:
                raise self._failure
            self._refuse_if_fenced()
            if self._stop_reason or self._supervisor is None:
                return
            while not self._failed_ticks.empty():
                self._supervisor.replace(*self._failed_ticks.get())
            self._supervisor.check()
            if self._supervisor.all_active:
                self._move(_State.RUNNING, "")
            else:
                general = "a query is being started again, or tasks are being restored"
                # What a worker died of says more than that it is not there.
                reason = self._supervisor.restarts_because or self._supervisor.waits_for or general
                self._move(_State.REBALANCING, reason)
            due = self._supervisor.next_due_s
            # The listener wakes this thread; the wait is limited in case that its notice is lost.
            with contextlib.suppress(queue.Empty):
                self._woken.get(timeout=0.5 if due is None else min(0.5, due))

    def _end_stopped(self) -> ExitCode:
        self._move(_State.PENDING_SHUTDOWN, self._stop_reason)
        problems = self._stop_queries()
        self._refuse_if_fenced()
        reason = "; ".join([self._stop_reason, *problems])
        self._move(_State.NOT_RUNNING, reason)
        self._write_ending(ExitCode.STOPPED, reason, "")
        return ExitCode.STOPPED

    def _end_failed(self, error: BaseException) -> ExitCode:
        cause = error if isinstance(error, DriverFencedError) else self._fence_behind()
        if cause is not None:
            return self._end_fenced(cause)
        reason = error.message if isinstance(error, MillraceError) else reason_of(error)
        remedy = error.remedy if isinstance(error, MillraceError) else "see the traceback in the driver's log"
        self._write_ending(ExitCode.FAILED, reason, remedy)
        expected = isinstance(error, MillraceError)
        log.error("application failed", reason=reason, remedy=remedy, exc_info=None if expected else error)
        self._open_publisher_if_no_driver_runs()
        if self.lifecycle.state is _State.CREATED:
            self.lifecycle.move_to(_State.REBALANCING)
        if self.lifecycle.state.is_working:
            self._move(_State.PENDING_ERROR, reason, remedy)
        problems = self._stop_queries()
        self._move(_State.ERROR if self.lifecycle.state is _State.PENDING_ERROR else _State.NOT_RUNNING, reason, remedy)
        for problem in problems:
            log.error("could not end cleanly", problem=problem)
        return ExitCode.FAILED

    def _fence_behind(self) -> DriverFencedError | None:
        """Returns the fence if a newer driver has taken over, which explains the failure; otherwise ``None``."""
        if not self._publisher.epoch:
            return None
        try:
            self.confirm_newest()
        except DriverFencedError as fence:
            return fence
        except MillraceError as problem:
            log.warning("not known whether a newer driver is the cause", problem=problem.message)
        return None

    def _end_fenced(self, error: DriverFencedError) -> ExitCode:
        """Ends without waiting or publishing: everything belongs to the newer driver."""
        self._abandon(error)
        self._reporter.set_reason(error.message, error.remedy)
        if self.lifecycle.state is _State.CREATED:
            self.lifecycle.move_to(_State.REBALANCING)
        if self.lifecycle.state.is_working:
            self.lifecycle.move_to(_State.PENDING_ERROR)
        if self.lifecycle.state.is_ending:
            failed = self.lifecycle.state is _State.PENDING_ERROR
            self.lifecycle.move_to(_State.ERROR if failed else _State.NOT_RUNNING)
        return ExitCode.FENCED

    def _open_publisher_if_no_driver_runs(self) -> None:
        """Opens the publisher for a failure before older drivers were fenced, unless one of them is alive."""
        if self._publisher.epoch:
            return
        try:
            last = self._publisher.peek()
            if last is not None and assess(last, now=time.time(), limits=self._settings.health).alive:
                log.warning("an older driver goes on; its status is left alone", driver_epoch=last.driver_epoch)
                return
            self._reporter.set_previous(self._publisher.open())
        except MillraceError as error:
            log.warning("the failure cannot be published", problem=error.message)

    def _stop_queries(self) -> list[str]:
        if self._supervisor is None:
            return []
        for each in self._queries:
            each.request_stop()
        problems = []
        try:
            # Given back before the queries are stopped: Spark waits for a callback, which may wait for its lock.
            with between_batches(self._queries, timeout_s=self._settings.barrier_timeout_s):
                log.info("between batches", application=self._application.application_id)
        except MillraceError as error:
            problems.append(f"{error.message} What it had begun is processed again at the next start.")
        return problems + self._supervisor.stop()

    def _move(self, state: ApplicationState, reason: str, remedy: str = "") -> None:
        """Moves to ``state`` and publishes; if no broker answers, the next heartbeat publishes it."""
        moved = self.lifecycle.move_to(state)
        if not self._reporter.set_reason(reason, remedy) and not moved:
            return
        try:
            self._reporter.publish()
        except DriverFencedError as error:
            self.fail(error)
            raise
        except MillraceError as error:
            log.warning("status not published", state=str(state), problem=error.message)

    def _query_restarts(self, sub_topology: int, restarts: int) -> None:
        self._reporter.set_restarts(sub_topology, restarts)
        if restarts:
            self._hooks.on_restart(sub_topology)

    def _beat(self) -> None:
        if self._fenced is not None:
            return
        self._reporter.pulse()
        self._refuse_live_members()
        self._reporter.broker_answered()
        self._hooks.watch()
        self._report_wait_reason()
        self._reporter.beat()

    def _report_wait_reason(self) -> None:
        """Reports, while queries start, which has no time limit, why no process runs their tasks."""
        if self._supervisor is None or self.lifecycle.state is not _State.REBALANCING:
            return
        if (reason := self._supervisor.waits_for) and not self._supervisor.restarts_because:
            self._reporter.set_reason(reason)

    def _heartbeat_failed(self, error: Exception) -> None:
        final = (DriverFencedError, OffsetsMovedError, StateError, _LiveMembersError)
        if isinstance(error, final) or not isinstance(error, MillraceError):
            self.fail(error)
        else:
            log.warning("heartbeat not published", problem=error.message)

    def _refuse_live_members(self) -> None:
        members = self._hooks.live_members()
        if members:
            group = self._application.application_id
            raise _LiveMembersError(
                f"Consumer group {group} has live members beside Millrace: {', '.join(members)}.",
                remedy="stop them: the broker takes their commits beside ours, which would lose or double records",
            )

    def _until_tick_s(self) -> float:
        """Returns the seconds until the next tick of idle queries: sooner than usual if a punctuation is due before."""
        scheduled = [due for each in self._queries if (due := each.next_tick_s) is not None]
        return min([self._settings.tick_interval_s, *(max(due, _SHORTEST_TICK_S) for due in scheduled)])

    def _tick_idle_queries(self) -> None:
        for each in self._queries:
            if self._fenced is not None:
                return
            if not is_alive(each) or not each.lock.acquire(blocking=False):  # inside a batch it is not idle
                continue
            try:
                each.tick()
            except Exception as error:
                self._failed_ticks.put((each, error))
                self._woken.put(None)
            finally:
                each.lock.release()

    def _pause_queries(self) -> None:
        for each in self._queries:
            each.pause()

    @contextlib.contextmanager
    def _control_plane(self) -> Iterator[None]:
        surface = ControlSurface(
            status=self.status,
            health=self.health,
            metrics=self._hooks.metrics,
            describe=self._hooks.describe,
            stop=lambda: self.stop("stopped through the control plane"),
            pause=self.pause,
            resume=self.resume,
            picture=self._hooks.picture,
            operate=self.operate,
        )
        with serving(surface, self._settings, self._reporter.set_control_address):
            yield

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        def handle(number: int, _: FrameType | None) -> None:
            self.stop(f"stopped by {signal.Signals(number).name}")

        before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class _LiveMembersError(PreflightError):
    """Another client is a member of the application's group."""
