"""The checks of a user's callable before it is called: whether its body would run at all."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from millrace.errors import MillraceError, TopologyError

ASYNC_REMEDY = (
    "pass a plain function: records are processed one after the other, and no process awaits a coroutine; for a lookup "
    "elsewhere, read the data as a (global) table, or call a blocking client inside the function"
)

_LRU_CACHE = type(functools.lru_cache(lambda: None))


def deferred_kind(function: Any, *, generators: bool = True) -> str | None:
    """Returns what a call of ``function`` gives instead of a result: ``"an async function"``.

    It is ``None`` for a function whose body the call runs.

    Args:
        function: a function, method, partial, object with ``__call__``, or what ``functools.lru_cache`` made.
        generators: whether a generator function counts as well: its body does not run when it is called either.
    """
    target = function
    while True:
        if isinstance(target, functools.partial):
            target = target.func
        elif isinstance(target, staticmethod | _LRU_CACHE):
            target = target.__wrapped__
        else:
            break
    candidates = [target]
    if not isinstance(target, type) and not inspect.isroutine(target):
        candidates.append(getattr(type(target), "__call__", None))  # noqa: B004 - the method itself is wanted
    for candidate in candidates:
        if inspect.iscoroutinefunction(candidate):
            return "an async function"
        if inspect.isasyncgenfunction(candidate):
            return "an async generator"
        if generators and inspect.isgeneratorfunction(candidate):
            return "a generator function"
    return None


def refuse_async(function: Any, *, what: str, error: type[MillraceError] = TopologyError) -> None:
    """Refuses what gives a coroutine, which nothing awaits and which counts as true.

    Args:
        function: what the user passed.
        what: its role, for the message: ``"mapper"``.
        error: what is raised.

    Raises:
        MillraceError: of the kind ``error``: it is async, or a partial or an object of something that is.
    """
    kind = deferred_kind(function, generators=False)
    if kind is not None:
        raise error(f"The {what} {callable_name(function)} is {kind}.", remedy=ASYNC_REMEDY)


def callable_name(function: Any) -> str:
    """Returns how a message names a callable: its qualified name, and the module and line where it is defined."""
    target = function
    while isinstance(target, functools.partial):
        target = target.func
    name = getattr(target, "__qualname__", None) or f"object of {type(target).__qualname__}"
    if isinstance(function, functools.partial):
        name = f"partial of {name}"
    code = getattr(target, "__code__", None)
    return name if code is None else f"{name} ({target.__module__}, line {code.co_firstlineno})"
