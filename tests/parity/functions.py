"""The functions of scenarios, by name. ``java/RunScenarios.java`` has the same table."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc

from millrace.dsl import (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    UsePartitionTimeOnInvalidTimestamp,
    field_timestamp,
    record_key,
    record_value,
)
from millrace.dsl import aggregators as built_in
from millrace.topology.aggregators import BuiltInAggregator
from millrace.topology.timestamp_extractors import TimestampExtractor
from millrace.topology.topic_extractors import RecordContext


def number(value: Any) -> int | None:
    """A value's amount, or the value itself if it is a number."""
    found = value.get("amount") if isinstance(value, dict) else value
    return found if isinstance(found, int) else None


def _or_zero(value: Any) -> int:
    return number(value) or 0


def _user(value: Any) -> Any:
    return value.get("user") if isinstance(value, dict) else None


def _fails_on_13(value: Any) -> bool:
    if number(value) == 13:
        raise ValueError("13")
    return True


PREDICATES: dict[str, Callable[[Any, Any], Any]] = {
    "amount>10": lambda key, value: number(value) is not None and _or_zero(value) > 10,
    "amount even": lambda key, value: number(value) is not None and _or_zero(value) % 2 == 0,
    "has amount": lambda key, value: number(value) is not None,
    "key==a": lambda key, value: key == "a",
    "has key": lambda key, value: key is not None,
    "always": lambda key, value: True,
    "fails on 13": lambda key, value: _fails_on_13(value),
}
KEY_MAPPERS: dict[str, Callable[[Any, Any], Any]] = {
    "user": lambda key, value: _user(value),
    "amount mod 3": lambda key, value: None if number(value) is None else f"m{_or_zero(value) % 3}",
    "user, fails on 13": lambda key, value: _user(value) if _fails_on_13(value) else None,
    "key": lambda key, value: key,
    "key@start": lambda key, value: f"{key.key}@{key.start}",
    "same": lambda key, value: key,
    "fails on 13": lambda key, value: key if _fails_on_13(value) else None,
}
VALUE_MAPPERS: dict[str, Callable[[Any, Any], Any]] = {
    "amount": lambda key, value: number(value),
    "amount+1": lambda key, value: None if number(value) is None else _or_zero(value) + 1,
    "null if odd": lambda key, value: None if number(value) is None or _or_zero(value) % 2 else value,
    "amount or -1": lambda key, value: -1 if number(value) is None else _or_zero(value),
    "key": lambda key, value: key,
    "fails on 13": lambda key, value: value if _fails_on_13(value) else None,
}
PAIR_MAPPERS: dict[str, Callable[[Any, Any], Any]] = {
    "user, amount": lambda key, value: (_user(value), number(value)),
    "amount mod 3, value": lambda key, value: (KEY_MAPPERS["amount mod 3"](key, value), value),
    "key or null, amount": lambda key, value: (None if _or_zero(value) % 2 else key, number(value)),
}
FLAT_VALUE_MAPPERS: dict[str, Callable[[Any, Any], Any]] = {
    "amount mod 3 times": lambda key, value: (_or_zero(value) + 100 * times for times in range(_or_zero(value) % 3)),
}
FLAT_MAPPERS: dict[str, Callable[[Any, Any], Any]] = {
    "amount mod 3 keys": lambda key, value: (
        (f"{key or ''}x{times}", _or_zero(value) + times) for times in range(_or_zero(value) % 3)
    ),
}


def _sum_gone(old: Any, value: Any) -> Any:
    total = _or_zero(old) + _or_zero(value)
    return total if total % 5 else None


REDUCERS: dict[str, Callable[[Any, Any], Any]] = {
    "latest": lambda old, value: value,
    "sum": lambda old, value: _or_zero(old) + _or_zero(value),
    "sum, gone at multiples of 5": _sum_gone,
}


def _better(old: Any, value: Any, choose: Callable[[int, int], int]) -> Any:
    new = number(value)
    return old if new is None else new if old is None else choose(old, new)


AGGREGATES: dict[str, tuple[Callable[[], Any], Callable[[Any, Any, Any], Any]]] = {
    "sum": (lambda: 0, lambda key, value, old: _or_zero(old) + _or_zero(value)),
    "sum, gone at multiples of 5": (lambda: 0, lambda key, value, old: _sum_gone(old, value)),
    "sum, fails on 13": (lambda: 0, lambda key, value, old: _fails_on_13(value) and old + _or_zero(value)),
    "max": (lambda: None, lambda key, value, old: _better(old, value, max)),
    "min": (lambda: None, lambda key, value, old: _better(old, value, min)),
    "first": (lambda: None, lambda key, value, old: _better(old, value, lambda first, _: first)),
    "last": (lambda: None, lambda key, value, old: _better(old, value, lambda _, last: last)),
    "texts": (
        lambda: "",
        lambda key, value, old: f"{old}{key}:{'null' if number(value) is None else number(value)};",
    ),
    "notes": (
        lambda: "",
        lambda key, value, old: f"{old}{key}={'null' if number(value) is None else number(value)},",
    ),
}
# A cogroup starts with one of these, and each of its inputs adds by one of those that fit it.
COGROUPED = {
    "sum": ("sum", "max", "min", "last", "sum, gone at multiples of 5"),
    "max": ("sum", "max", "min", "first", "last"),
    "texts": ("texts", "notes"),
}


def _merger(adder: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """An aggregate takes that of another session as it takes a value."""
    return lambda key, older, newer: adder(key, newer, older)


MERGERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    **{fn: _merger(adder) for fn, (_, adder) in AGGREGATES.items()},
    "texts": lambda key, older, newer: f"({older}{newer})",
    "notes": lambda key, older, newer: f"({older}{newer})",
}
JOINERS: dict[str, Callable[[Any, Any], Any]] = {
    "left|right": lambda left, right: "|".join("null" if (n := number(v)) is None else str(n) for v in (left, right)),
    "left-right": lambda left, right: _or_zero(left) - _or_zero(right),
    "null if even": lambda left, right: left if _or_zero(left) % 2 else None,
}


def joiner_with_keys(fn: str, takes: str | None) -> Callable[..., Any]:
    """A joiner that puts the key or both keys before the JSON of what the joiner ``fn`` gives."""
    joiner = JOINERS[fn]
    if takes is None:
        return joiner

    def join(*arguments: Any) -> str:
        keys = ["null" if key is None else key for key in arguments[:-2]]
        return "/".join([*keys, json.dumps(joiner(*arguments[-2:]), separators=(",", ":"))])

    return join


def _amount_or_invalid(value: Any) -> int:
    found = number(value)
    return -1 if found is None else found


TIMESTAMP_EXTRACTORS: dict[str, TimestampExtractor] = {
    "amount": lambda key, value, timestamp, partition_time: _amount_or_invalid(value),
    "amount, fails on 13": lambda key, value, timestamp, partition_time: (
        _amount_or_invalid(value) if _fails_on_13(value) else -1
    ),
    "amount or fail": field_timestamp("amount", on_invalid=FailOnInvalidTimestamp()),
    "amount or skip": field_timestamp("amount", on_invalid=LogAndSkipOnInvalidTimestamp()),
    "amount or partition time": field_timestamp("amount", on_invalid=UsePartitionTimeOnInvalidTimestamp()),
}


# Of grouped tables: adders and subtractors.
def _difference(old: Any, value: Any) -> int:
    return _or_zero(old) - _or_zero(value)


def _difference_gone(old: Any, value: Any) -> int | None:
    return _difference(old, value) if _difference(old, value) % 5 else None


TABLE_REDUCERS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "sum": (REDUCERS["sum"], _difference),
    "sum, gone at multiples of 5": (REDUCERS["sum, gone at multiples of 5"], _difference_gone),
    "latest": (REDUCERS["latest"], lambda old, value: old),
}
TABLE_AGGREGATES: dict[
    str, tuple[Callable[[], Any], Callable[[Any, Any, Any], Any], Callable[[Any, Any, Any], Any]]
] = {
    "sum": (*AGGREGATES["sum"], lambda key, value, old: _difference(old, value)),
    "sum, gone at multiples of 5": (
        *AGGREGATES["sum, gone at multiples of 5"],
        lambda key, value, old: _difference_gone(old, value),
    ),
    "texts": (
        *AGGREGATES["texts"],
        lambda key, value, old: f"{old}-{key}:{'null' if number(value) is None else number(value)};",
    ),
}

# What stays in columns. The first table is for objects, the second for numbers.


class TopicExtractor:
    """A topic name extractor that ``describe()`` shows by its name.

    Args:
        name: of the extractor.
        choose: gives the topic.
        read_again: those of its topics that a topology may also read.
    """

    def __init__(
        self, name: str, choose: Callable[[Any, Any, RecordContext], str], read_again: tuple[str, ...] = ()
    ) -> None:
        self.read_again = read_again
        self._name = name
        self._choose = choose

    def __call__(self, key: Any, value: Any, context: RecordContext) -> str:
        return self._choose(key, value, context)

    def __str__(self) -> str:
        return self._name


def _place(context: RecordContext) -> str:
    headers = "".join(f".{name}" for name, _ in context.headers)
    return f"{context.topic or 'none'}.{context.partition}.{context.offset}.{context.timestamp}{headers}"


TOPIC_EXTRACTORS = {
    name: TopicExtractor(name, choose, ("even", "odd") if name == "even or odd" else ())
    for name, choose in {
        "key": lambda key, value, context: f"out-{'null' if key is None else key.replace('@', '.')}",
        "even or odd": lambda key, value, context: "odd" if _or_zero(value) % 2 else "even",
        "context": lambda key, value, context: _place(context),
        "window start": lambda key, value, context: f"from-{key.start}",
    }.items()
}


def choose_by_key(_topic: str, key: Any, _value: Any, _partitions: int) -> set[int] | list[int] | int | None:
    """All partitions, none, one, or whatever the key's hash says."""
    answers: dict[Any, set[int] | list[int] | int] = {"a": {0, 1, 2}, "b": [], "c": 1}
    return answers.get(key)


OBJECT_EXPRESSIONS: dict[str, pc.Expression] = {
    "amount>10": pc.field("amount") > 10,
    "has amount": pc.field("amount").is_valid(),
    "key==a": record_key() == "a",
    "has key": record_key().is_valid(),
    "always": pc.scalar(True),
    "user": pc.field("user"),
    "amount": pc.field("amount"),
    "amount+1": pc.field("amount") + 1,
    "key": record_key(),
    "same": record_key(),
}
NUMBER_EXPRESSIONS: dict[str, pc.Expression] = {
    **OBJECT_EXPRESSIONS,
    "amount>10": record_value() > 10,
    "has amount": record_value().is_valid(),
    "amount": record_value(),
    "amount+1": record_value() + 1,
}
NUMBER_EXPRESSIONS.pop("user")
BUILT_IN_AGGREGATORS: dict[str, Callable[[str | None], BuiltInAggregator]] = {
    "sum": built_in.sum_,
    "max": built_in.max_,
    "min": built_in.min_,
    "first": built_in.first,
    "last": built_in.last,
}
