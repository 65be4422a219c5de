"""Who has an operation carried out: for its journal, and so that it can be stopped between two steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from millrace.errors import OperationError


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Whoever calls for operations.

    Args:
        name: what the journal has under ``requested_by``; an operation that this caller began is found by it.
        wants_stop: asked before each step; where it says true, the operation ends there and can be resumed.
        on_plan: is given the operation's id and the texts of its steps, those that are done already included, before
            the first step runs.
        progress: takes lines that say how far it is.
    """

    name: str = ""
    wants_stop: Callable[[], bool] = lambda: False
    on_plan: Callable[[str, Sequence[str]], None] = lambda _id, _steps: None
    progress: Callable[[str], None] = lambda _: None


class OperationStoppedError(OperationError):
    """An operation ended before one of its steps because its caller wanted it to; it can be resumed."""


_NOBODY = Caller()
_CALLER: ContextVar[Caller] = ContextVar("millrace_caller")


@contextmanager
def called_by(caller: Caller) -> Iterator[None]:
    """Operations that are begun or resumed inside belong to ``caller``."""
    token = _CALLER.set(caller)
    try:
        yield
    finally:
        _CALLER.reset(token)


def current_caller() -> Caller:
    """The caller of this thread's operations; one without a name where nobody said so."""
    return _CALLER.get(_NOBODY)
