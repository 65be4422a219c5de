"""Checks of the callables and expressions that users pass, at the time the topology is written."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import pyarrow.compute as pc

from millrace.callables import refuse_async
from millrace.errors import TopologyError
from millrace.topology.arity import KeyedJoiner, OfValue, arguments_taken
from millrace.topology.timestamp_extractors import ColumnarTimestampExtractor, invalid_takes_record


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


def mapper_of(function: Any, *, what: str) -> Any:
    """Returns ``function`` as a callable of ``(key, value)``; it may itself take the value alone.

    Which one it is, :mod:`millrace.topology.arity` says. An expression stays what it is.

    Args:
        function: what the user passed.
        what: its role, for the message: ``"value mapper"``.

    Raises:
        TopologyError: it is neither an expression nor callable with one or two arguments.
    """
    return function if isinstance(function, pc.Expression) else value_mapper_of(function, what=what)


def value_mapper_of(function: Any, *, what: str) -> Any:
    """Works like :func:`mapper_of`, where no expression is allowed.

    Raises:
        TopologyError: it is not callable with one or two arguments.
    """
    if arguments_of(function, {1: "value", 2: "key, value"}, undecided=2, what=what) == 1:
        return OfValue(function)
    return function


def table_joiner_of(joiner: Any, *, takes: str = "value, other_value") -> Any:
    """Returns ``joiner`` as a callable of the values of two tables or, marked so, of the key and them.

    Raises:
        TopologyError: it takes neither.
    """
    if arguments_of(joiner, {2: takes, 3: f"key, {takes}"}, undecided=2, what="joiner") == 3:
        return KeyedJoiner(joiner)
    return joiner


def joiner_takes_key(joiner: Any, takes: str, *, asked: bool | None) -> bool:
    """Returns whether a joiner of a stream gets the key in front of the values.

    Args:
        joiner: what the user passed.
        takes: names of the values, for the message: ``"value, other_value"``.
        asked: what the user said of it; ``None`` leaves it to the joiner's parameters.

    Raises:
        TopologyError: it cannot be called so.
    """
    choices = {2: takes, 3: f"key, {takes}"}
    if asked is not None:
        choices = {number: names for number, names in choices.items() if (number == 3) is asked}
    return arguments_of(joiner, choices, undecided=2, what="joiner") == 3


def arguments_of(function: Any, choices: Mapping[int, str], *, undecided: int, what: str) -> int:
    """Returns how many arguments a user's callable gets where it may take several numbers of them.

    Args:
        function: what the user passed.
        choices: for each number the names of the arguments, fewest first.
        undecided: see :func:`millrace.topology.arity.arguments_taken`.
        what: its role, for the message.

    Raises:
        TopologyError: it is not callable, or with none of these numbers.
    """
    taken = arguments_taken(function, tuple(choices), undecided=undecided) if callable(function) else None
    if taken is None:
        if not callable(function) or len(choices) == 1:
            check_callable(function, min(choices), what=what, takes=next(iter(choices.values())))
        name = getattr(function, "__qualname__", repr(function))
        offered = " nor ".join(f"({names})" for names in choices.values())
        raise TopologyError(
            f"The {what} {name}{inspect.signature(function)} can be called with neither {offered}.",
            remedy=f"give it the parameters {offered.replace(' nor ', ' or ')}",
        )
    check_callable(function, taken, what=what, takes=choices[taken])
    return taken


def check_timestamp_extractor(extractor: Any) -> None:
    """Accepts what is called with a record's parts, or with the record: both with the partition time.

    Raises:
        TopologyError: it can be called with neither.
    """
    choices = {2: "record, partition_time", 4: "key, value, timestamp, partition_time"}
    arguments_of(extractor, choices, undecided=4, what="timestamp extractor")
    if isinstance(extractor, ColumnarTimestampExtractor):
        invalid_takes_record(extractor)
