"""The number of arguments that a user's callable gets where Kafka Streams has two interfaces, with and without the key.

Java distinguishes ``ValueMapper`` and ``ValueMapperWithKey`` by their types. Here the parameters of the callable do:

1. Where only one number of arguments can be passed to it, that one is passed.
2. Where several can (optional parameters, ``*args``), it gets as many as it requires; but the key as well if it is
   written in Python and its first parameter is called ``key`` (or ``k``, with or without underscores).
3. Where it requires fewer than any of them (``*args`` alone, nothing but optional parameters), the operator decides:
   mappers, foreign-key extractors and timestamp extractors get the most, joiners the values alone.
4. A built-in without inspectable parameters (``str``, ``max``, ``operator.itemgetter("a")``) gets the fewest.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import BuiltinFunctionType, ClassMethodDescriptorType, MethodDescriptorType, MethodWrapperType
from typing import Any

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMES_OF_KEYS = frozenset({"key", "k", "read_only_key"})
_BUILT_IN = (BuiltinFunctionType, MethodDescriptorType, MethodWrapperType, ClassMethodDescriptorType)


def arguments_taken(function: Callable[..., Any], choices: Sequence[int], *, undecided: int) -> int | None:
    """Returns the number of positional arguments to call ``function`` with.

    Args:
        function: any callable: a function, method, class, partial, built-in or object with ``__call__``.
        choices: the numbers that the operator can pass, ascending.
        undecided: the one that a callable gets which requires fewer than any of them.

    Returns:
        One of ``choices``, or ``None`` where it can be called with none of them.
    """
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return choices[0]
    possible = [number for number in choices if _binds(signature, number)]
    if len(possible) <= 1:
        return possible[0] if possible else None
    positional = [each for each in signature.parameters.values() if each.kind in _POSITIONAL]
    required = sum(each.default is inspect.Parameter.empty for each in positional)
    if positional and not _is_built_in(function) and positional[0].name.strip("_") in _NAMES_OF_KEYS:
        return next((number for number in possible if number > choices[0] and number >= required), possible[-1])
    if required in possible:
        return required
    return undecided if undecided in possible else possible[0]


def _binds(signature: inspect.Signature, arguments: int) -> bool:
    try:
        signature.bind(*range(arguments))
    except TypeError:
        return False
    return True


def _is_built_in(function: Any) -> bool:
    """Whether it is written in C: ``rates.get`` has a parameter ``key`` that is no record's key."""
    while isinstance(function, functools.partial):
        function = function.func
    return isinstance(function, _BUILT_IN)


@dataclass(frozen=True)
class OfValue:
    """A mapper that takes the value alone, as one that takes key and value."""

    function: Callable[[Any], Any]

    def __call__(self, _key: Any, value: Any, /) -> Any:
        """Returns what the mapper makes of the value."""
        return self.function(value)


@dataclass(frozen=True)
class KeyedJoiner:
    """A joiner of two tables that takes the key as well: ``(key, value, other value) -> value``.

    Kafka Streams has none for tables; where it stands instead of a plain one, the operators pass the key.
    """

    function: Callable[[Any, Any, Any], Any]

    def __call__(self, key: Any, value: Any, other_value: Any, /) -> Any:
        """Returns what the joiner makes of the values."""
        return self.function(key, value, other_value)
