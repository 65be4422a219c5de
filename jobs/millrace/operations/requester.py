"""The requester of an operation: named in its journal, and able to cancel it between two steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from millrace.errors import OperationError


@dataclass(frozen=True, kw_only=True)
class Requester:
    """The process that requests operations.

    Args:
        name: what the journal has under ``requested_by``; an operation that this requester began is found by it.
        is_cancelled: asked before each step; where it says true, the operation ends there and can be resumed.
        on_plan: is given the operation's id and the texts of its steps, those that are done already included, before
            the first step runs.
        progress: takes lines that say how far it is.
    """

    name: str = ""
    is_cancelled: Callable[[], bool] = lambda: False
    on_plan: Callable[[str, Sequence[str]], None] = lambda _id, _steps: None
    progress: Callable[[str], None] = lambda _: None


class OperationStoppedError(OperationError):
    """An operation ended before one of its steps because its requester cancelled it; it can be resumed."""


_UNNAMED = Requester()
_REQUESTER: ContextVar[Requester] = ContextVar("millrace_requester")


@contextmanager
def on_behalf_of(requester: Requester) -> Iterator[None]:
    """Operations that are begun or resumed inside belong to ``requester``."""
    token = _REQUESTER.set(requester)
    try:
        yield
    finally:
        _REQUESTER.reset(token)


def current_requester() -> Requester:
    """The requester of this thread's operations; one without a name where none was set."""
    return _REQUESTER.get(_UNNAMED)
