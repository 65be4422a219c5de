"""Checks of the callables and expressions that users pass, at the time the topology is written."""

from __future__ import annotations

import inspect
from typing import Any

import pyarrow.compute as pc

from millrace.callables import refuse_async
from millrace.errors import TopologyError


def check_callable(function: Any, arguments: int, *, what: str, takes: str) -> None:
    """Refuses what cannot be called with ``arguments`` positional arguments.

    A callable without a readable signature (some built-ins) is taken as it is.

    Args:
        function: what the user passed.
        arguments: how many positional arguments it will get.
        what: its role, for the message: ``"mapper"``.
        takes: names of the arguments, for the message: ``"key, value"``.

    Raises:
        TopologyError: it is not callable, is async, or its signature does not take them.
    """
    if not callable(function):
        raise TopologyError(f"The {what} is {function!r}, which is not callable.", remedy=f"pass a function ({takes})")
    refuse_async(function, what=what)
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return
    try:
        signature.bind(*range(arguments))
    except TypeError as error:
        name = getattr(function, "__qualname__", repr(function))
        raise TopologyError(
            f"The {what} {name}{signature} cannot be called with ({takes}).",
            remedy=f"give it the parameters ({takes})",
        ) from error


def check_mapper(function: Any, *, what: str) -> None:
    """Accepts a pyarrow expression or a callable ``(key, value)``.

    Raises:
        TopologyError: it is neither.
    """
    if not isinstance(function, pc.Expression):
        check_callable(function, 2, what=what, takes="key, value")
