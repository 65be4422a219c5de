"""Marks of nodes: another one exactly where what a node does has changed, and the same in every process."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from millrace.dsl import Consumed, Materialized, StreamsBuilder, record_value
from millrace.dsl import aggregators as agg
from millrace.serdes import LongSerde, StringSerde
from millrace.topology.node_marks import changed_marks, node_marks

FUNCTIONS = """
LIMIT = {limit}
class Rule:
    def __init__(self, limit):
        self.limit = limit
    def __call__(self, key, value):
        return value {comparison} self.limit
def helper(value):
    return value {comparison} 1
def by_helper(key, value):
    # {comment}
    return helper(value)
def by_global(key, value):
    return (lambda: value > LIMIT)()
def recursive(key, value):
    return value > 1 or recursive(key, value {comparison} 1)
"""


def functions(*, limit: int = 5, comparison: str = ">", comment: str = "") -> dict[str, Any]:
    """A module of an application, as it is after an edit."""
    module: dict[str, Any] = {"__name__": "an_application"}
    exec(compile(FUNCTIONS.format(limit=limit, comparison=comparison, comment=comment), "app.py", "exec"), module)
    return module


def marks(keep: Any, aggregator: Any = None) -> dict[str, str]:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(StringSerde(), LongSerde()).with_name("in"))
    counted = stream.filter(keep, named="keep").group_by_key()
    counted.aggregate(aggregator or agg.sum_(), materialized=Materialized.as_("total")).to_stream(named="results")
    return node_marks(builder.build())


def closing_over(limit: int) -> Callable[[Any, Any], bool]:
    return lambda _, value: value > limit


def with_default(limit: int) -> Callable[..., bool]:
    def keep(_: Any, value: int, limit: int = limit) -> bool:
        return value > limit

    return keep


@dataclass(frozen=True)
class Options:
    limit: int


def by(limit: Any, _: Any, value: Any) -> bool:
    return bool(value > getattr(limit, "limit", limit))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda _, value: value > 1, lambda _, value: value > 2),
        (closing_over(1), closing_over(2)),
        (with_default(1), with_default(2)),
        (functools.partial(by, 1), functools.partial(by, 2)),
        (functools.partial(by, Options(1)), functools.partial(by, Options(2))),
        (record_value() > 1, record_value() > 2),
        (functions()["by_helper"], functions(comparison="<")["by_helper"]),
        (functions()["by_global"], functions(limit=6)["by_global"]),
        (functions()["recursive"], functions(comparison="+")["recursive"]),
        (functions()["Rule"](1), functions()["Rule"](2)),
        (functions()["Rule"](1), functions(comparison="<")["Rule"](1)),
        (functions()["Rule"](1).__call__, functions(comparison="<")["Rule"](1).__call__),
    ],
)
def test_a_node_whose_function_changed_does_something_else_and_no_other_does(one: Any, other: Any) -> None:
    assert changed_marks(marks(one), marks(other)) == ("node keep does something else",)
    assert changed_marks(marks(one), marks(one)) == ()


def test_a_comment_or_another_line_changes_nothing() -> None:
    before, after = functions(), functions(comment="explained\n\n    # at length")
    assert marks(before["by_helper"]) == marks(after["by_helper"])


def test_another_aggregator_changes_its_node_only() -> None:
    keep = closing_over(1)
    (line,) = changed_marks(marks(keep), marks(keep, agg.max_()))
    assert line.startswith("node ")
    assert line.endswith("does something else")
    assert "keep" not in line


def test_new_and_gone_nodes_and_stores_are_named() -> None:
    before = {"node a": "1", "store s": "1"}
    assert changed_marks(before, {"node b": "1"}) == ("node b is new", "node a is gone", "store s is gone")


def test_marks_are_the_same_in_every_process() -> None:
    script = (
        "from apps.user_analytics import build; from millrace.dsl import StreamsBuilder; "
        "from millrace.topology.node_marks import node_marks; b = StreamsBuilder(); build(b); "
        "print(sorted(node_marks(b.build()).items()))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1
