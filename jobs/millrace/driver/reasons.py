"""The reason of a failure in one line, without a stack trace, for statuses and messages."""

from __future__ import annotations

import re

from millrace.errors import MillraceError

_LONGEST = 500
_NAMED = re.compile(r"^(?:Caused by: )?(?:[\w$]+[.])*([\w$]*(?:Error|Exception|Interrupt)): (.*\S)\s*$")
"""A line that names an error, in a trace of Java or Python."""


def reason_of(error: BaseException) -> str:
    """Returns the type and message of an error, without the stack traces that errors of Spark have in their text.

    A trace ends with what was first: the last line that names an error, in Java's as ``Caused by``, in Python's after
    the calls.
    """
    if isinstance(error, MillraceError):
        return f"{type(error).__name__}: {error}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [found.groups() for line in lines if (found := _NAMED.match(line))]
    reported = [(kind, text) for kind, text in named if not text.startswith("Traceback (")]
    if reported:
        kind, text = reported[-1]
    else:
        kind, text = type(error).__name__, lines[0] if lines else "it says nothing"
    return f"{kind}: {text}"[:_LONGEST]
