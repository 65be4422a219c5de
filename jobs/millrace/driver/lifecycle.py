"""The states of an application and the moves between them, as in ``KafkaStreams.State``."""

from __future__ import annotations

import threading
from enum import StrEnum
from types import MappingProxyType

import structlog

from millrace.errors import OperationError

log = structlog.get_logger(__name__)


class ApplicationState(StrEnum):
    """The states of an application; each member's ``meaning`` explains it to an operator."""

    meaning: str

    CREATED = "CREATED", "the driver exists; nothing has been started"
    REBALANCING = "REBALANCING", "tasks are placed, warmed up or restored, or a failed query waits for its restart"
    RUNNING = "RUNNING", "every query is active; also while the application is paused"
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN", "a stop was asked for; batches that run are let finish"
    NOT_RUNNING = "NOT_RUNNING", "stopped on request; offsets are committed"
    PENDING_ERROR = "PENDING_ERROR", "something failed for good; what still runs is being stopped"
    ERROR = "ERROR", "stopped by a failure, which the reason names"

    def __new__(cls, value: str, meaning: str = "") -> ApplicationState:
        """Creates a member equal to ``value`` that carries its ``meaning``."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    @property
    def has_ended(self) -> bool:
        """Whether the application has ended, and will not start by itself."""
        return self in {ApplicationState.NOT_RUNNING, ApplicationState.ERROR}

    @property
    def is_ending(self) -> bool:
        """Whether the application is about to end."""
        return self in {ApplicationState.PENDING_SHUTDOWN, ApplicationState.PENDING_ERROR}

    @property
    def is_working(self) -> bool:
        """Whether batches run, or will run once the tasks are assigned."""
        return self in {ApplicationState.REBALANCING, ApplicationState.RUNNING}


_S = ApplicationState
TRANSITIONS = MappingProxyType(
    {
        _S.CREATED: frozenset({_S.REBALANCING, _S.PENDING_SHUTDOWN}),
        _S.REBALANCING: frozenset({_S.RUNNING, _S.PENDING_SHUTDOWN, _S.PENDING_ERROR}),
        _S.RUNNING: frozenset({_S.REBALANCING, _S.PENDING_SHUTDOWN, _S.PENDING_ERROR}),
        _S.PENDING_SHUTDOWN: frozenset({_S.NOT_RUNNING}),
        _S.NOT_RUNNING: frozenset[ApplicationState](),
        _S.PENDING_ERROR: frozenset({_S.ERROR}),
        _S.ERROR: frozenset[ApplicationState](),
    }
)
"""Which states may follow each state."""


class Lifecycle:
    """The current state of one application. Thread-safe."""

    def __init__(self) -> None:
        self._condition = threading.Condition(threading.RLock())
        self._state = ApplicationState.CREATED

    @property
    def state(self) -> ApplicationState:
        """The current state."""
        with self._condition:
            return self._state

    def move_to(self, new: ApplicationState) -> bool:
        """Moves to the state ``new``.

        Returns:
            Whether the state changed: moving to the state that already is does nothing.

        Raises:
            OperationError: no such move exists.
        """
        with self._condition:
            old = self._state
            if new is old:
                return False
            if new not in TRANSITIONS[old]:
                allowed = ", ".join(sorted(TRANSITIONS[old])) or "none"
                raise OperationError(
                    f"An application in state {old} ({old.meaning}) cannot become {new}; allowed: {allowed}.",
                    remedy="start a new driver" if old.has_ended else "wait for the state to change",
                )
            self._state = new
            log.info("state changed", old=str(old), new=str(new))
            self._condition.notify_all()
            return True

    def wait_for(self, *states: ApplicationState, timeout_s: float) -> bool:
        """Waits until the state is one of ``states``, at most ``timeout_s`` seconds; returns whether it is."""
        with self._condition:
            return self._condition.wait_for(lambda: self._state in states, timeout_s)
