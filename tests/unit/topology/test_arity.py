"""How many arguments a user's callable gets."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import Any

import pytest

from millrace.topology.arity import arguments_taken


class _OfValue:
    def __call__(self, value: Any) -> Any:
        return value

    def with_key(self, key: Any, value: Any) -> Any:
        return key, value

    @staticmethod
    def plain(value: Any) -> Any:
        return value

    @classmethod
    def made(cls, value: Any) -> Any:
        return value


@dataclass
class _Payment:
    amount: int
    currency: str = "EUR"


def _with_limit(key: Any, value: Any, limit: int = 3) -> Any:
    return key, value, limit


def _of_three(limit: int, key: Any, value: Any) -> Any:
    return limit, key, value


def _undecorated(*args: Any, **options: Any) -> Any:
    return args, options


@functools.wraps(_with_limit)
def _decorated(*args: Any, **options: Any) -> Any:
    return _with_limit(*args, **options)


MAPPERS = [
    (lambda value: value, 1),
    (lambda key, value: value, 2),
    (lambda value, *rest: value, 1),
    (lambda value, limit=3: value, 1),
    (lambda key, value=None: value, 2),
    (lambda _key, value=None: value, 2),
    (lambda k=None, v=None: v, 2),
    (lambda value=None: value, 1),
    (lambda a=None, b=None: a, 2),
    (lambda *args: args, 2),
    (lambda value, *, limit=3: value, 1),
    (lambda key, *args: args, 2),
    (_with_limit, 2),
    (_decorated, 2),
    (_undecorated, 2),
    (functools.partial(_of_three, 3), 2),
    (functools.partial(_of_three, 3, "k"), 1),
    (functools.partial(_with_limit, limit=9), 2),
    (functools.partial(_with_limit, "k"), 1),
    (_OfValue(), 1),
    (_OfValue().with_key, 2),
    (_OfValue.plain, 1),
    (_OfValue.made, 1),
    (_Payment, 1),
    (str, 1),
    (int, 1),
    (float, 1),
    (len, 1),
    (round, 1),
    (dict, 1),
    (str.upper, 1),
    ({"a": 1}.get, 1),
    (operator.itemgetter("amount"), 1),
    (operator.attrgetter("amount"), 1),
    (operator.methodcaller("upper"), 1),
    (operator.add, 2),
    (functools.partial(int, base=16), 1),
    (lambda: 1, None),
    (lambda a, b, c: 1, None),
    (lambda value, *, needed: value, None),
]


@pytest.mark.parametrize(("function", "expected"), MAPPERS)
def test_a_mapper_gets_the_key_where_its_parameters_say_so(function: Any, expected: int | None) -> None:
    assert arguments_taken(function, (1, 2), undecided=2) == expected


JOINERS = [
    (lambda left, right: left, 2),
    (lambda key, left, right: left, 3),
    (lambda key, left, right=None: left, 3),
    (lambda left, right, extra=None: left, 2),
    (lambda left, *rest: left, 2),
    (lambda *args: args, 2),
    (lambda key, selected, left, right: left, 4),
    (lambda key, selected, left, right=None: left, 3),
    (max, 2),
    (operator.add, 2),
    (lambda value: value, None),
]


@pytest.mark.parametrize(("function", "expected"), JOINERS)
def test_a_joiner_gets_the_values_and_the_keys_that_it_has_parameters_for(function: Any, expected: int | None) -> None:
    assert arguments_taken(function, (2, 3, 4), undecided=2) == expected


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda record, partition_time: 1, 2),
        (lambda key, value, timestamp, partition_time: 1, 4),
        (lambda key, value, timestamp=0, partition_time=0: 1, 4),
        (lambda *args: 1, 4),
        (lambda record, partition_time, offset=0: 1, 2),
        (lambda record: 1, None),
    ],
)
def test_a_timestamp_extractor_gets_the_record_or_its_parts(function: Any, expected: int | None) -> None:
    assert arguments_taken(function, (2, 4), undecided=4) == expected
