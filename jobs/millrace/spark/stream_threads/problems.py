"""Errors that are sent between processes: the names of their classes, the message and the remedy, never an object."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ConfigDict

from millrace import errors
from millrace.errors import MillraceError, OperationError

_LONGEST_TEXT = 20_000


@dataclass(frozen=True)
class Problem:
    """The description of an error in another process.

    Args:
        kinds: names of the error's class and of those above it, the nearest first.
        message: what happened.
        remedy: what the operator should do.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    kinds: tuple[str, ...]
    message: str
    remedy: str = ""


def problem_of(error: BaseException) -> Problem:
    """Describes an error for the other side. The message of an error that is not Millrace's own contains its class."""
    kinds = tuple(kind.__name__ for kind in type(error).__mro__ if issubclass(kind, MillraceError))
    if isinstance(error, MillraceError):
        return Problem(kinds, _cut(error.message), _cut(error.remedy))
    return Problem((), _cut(f"{type(error).__name__}: {error}"), "see the output of the worker in the driver's log")


def error_of(problem: Problem) -> MillraceError:
    """Returns the error that a problem describes, of its nearest class in :mod:`millrace.errors`."""
    for name in problem.kinds:
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, MillraceError) and kind is not MillraceError:
            return kind(problem.message, remedy=problem.remedy)
    return OperationError(problem.message, remedy=problem.remedy)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]} ... ({len(text)} characters)"
