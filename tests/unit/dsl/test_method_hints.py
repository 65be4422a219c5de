"""A method that an object of the DSL does not have is answered with the one that was meant."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from millrace.dsl import Branched, Consumed, KStream, StreamsBuilder, TimeWindows
from millrace.dsl.method_hints import EndOfStream
from millrace.errors import MillraceError, MissingMethodError, TopologyError
from millrace.serdes import JsonSerde, StringSerde

READ = Consumed.with_(StringSerde(), JsonSerde())


def stream() -> Any:
    return StreamsBuilder().stream("in", READ)


def table() -> Any:
    return StreamsBuilder().table("in", READ)


def untyped(each: Any) -> Any:
    return each


@pytest.mark.parametrize(
    ("call", "message", "remedy"),
    [
        (lambda: table().to("out"), r"KTable behind KTABLE-SOURCE-0000000002 has no method to\(\)", "to_stream()"),
        (lambda: table().foreach(print), "no method foreach", "to_stream()"),
        (lambda: table().select_key(str), "no method select_key", "to_stream()"),
        (lambda: table().group_by_key(), "no method group_by_key", "to_stream().group_by_key()"),
        (lambda: table().count(), "no method count", "group_by()"),
        (lambda: stream().count(), r"KStream behind KSTREAM-SOURCE-0000000000", "group_by_key()"),
        (lambda: stream().windowed_by(1), "no method windowed_by", "group_by_key()"),
        (lambda: stream().suppress(1), "no method suppress", "to_table()"),
        (lambda: stream().groupByKey(), "no method groupByKey", "group_by_key here"),
        (lambda: stream().mapValues(str), "no method mapValues", "map_values here"),
        (lambda: table().queryableStoreName(), "no method queryableStoreName", "queryable_store_name here"),
        (lambda: stream().through("x"), "no method through", "repartition()"),
        (lambda: stream().flatTransform(1), "no method flatTransform", "process()"),
        (lambda: stream().branch(1), "no method branch", "split()"),
        (lambda: stream().fliter(1), "no method fliter", "use filter()"),
        (lambda: stream().group_by_key().to("x"), "KGroupedStream behind KSTREAM-SOURCE-0000000000", "to_stream()"),
        (lambda: stream().group_by_key().filter(1), "no method filter", "count()"),
        (
            lambda: stream().group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(1)).suppress(1),
            "TimeWindowedKStream behind KSTREAM-SOURCE-0000000000",
            "count()",
        ),
        (lambda: untyped(StreamsBuilder().global_table("in", READ)).to_stream(), "GlobalKTable has no", "stream.join("),
        (lambda: untyped(StreamsBuilder()).map(1), "StreamsBuilder has no method map", "stream() or table()"),
        (lambda: stream().split().map(1), "BranchedKStream behind", "default_branch()"),
    ],
)
def test_a_missing_method_is_answered_with_the_one_that_was_meant(
    call: Callable[[], Any], message: str, remedy: str
) -> None:
    with pytest.raises(MissingMethodError, match=message) as raised:
        call()
    assert remedy in raised.value.remedy


@pytest.mark.parametrize(
    ("end", "call"), [(lambda one: one.to("out"), "to('out')"), (lambda one: one.foreach(pair), "foreach(...)")]
)
def test_a_call_after_the_end_of_a_stream_names_what_ended_it(end: Callable[[Any], Any], call: str) -> None:
    with pytest.raises(MissingMethodError) as raised:
        end(stream()).map_values(str)
    assert "map_values()" in raised.value.message
    assert call in raised.value.message
    assert "KSTREAM-SOURCE-0000000000" in raised.value.message


def pair(_key: Any, _value: Any) -> None:
    """Does nothing."""


def test_a_branch_that_a_function_ends_is_not_among_the_branches() -> None:
    branches = (
        stream()
        .split()
        .branch(lambda key, value: True, Branched.with_function(lambda branch: branch.to("out")))
        .default_branch()
    )
    assert [type(each) for each in branches.values()] == [KStream]


def test_a_branch_function_that_returns_something_else_is_refused_by_the_branch_s_name() -> None:
    split = stream().split(named="split-")
    with pytest.raises(TopologyError, match=r"The function of branch split-x returns 3"):
        split.branch(lambda key, value: True, Branched.with_function(lambda branch: 3, name="x"))  # type: ignore[arg-type, return-value]


def test_missing_methods_are_attribute_errors_so_that_python_can_ask() -> None:
    assert not hasattr(stream(), "to_stream")
    assert issubclass(MissingMethodError, MillraceError)
    with pytest.raises(AttributeError):
        _ = stream().__no_such_thing__
    ended = EndOfStream("to('x')", "node")
    assert copy.copy(ended).__dict__ == ended.__dict__
    assert pickle.loads(pickle.dumps(ended)).__dict__ == ended.__dict__
    assert "to('x')" in repr(ended)
