"""What of a scenario's output is defined when some of its stores have caches."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.parity.generating import generate
from tests.parity.real_path.caching import Defined, defined_outputs, with_caching, without_caching

STREAM = {"op": "stream", "as": "s", "topics": ["in"]}
TABLE = {"op": "table", "as": "t", "topic": "table", "store": "rows", "cached": True}
GROUPED = {"op": "group_by_key", "as": "g", "on": "s"}
COUNT = {"op": "count", "as": "c", "on": "g", "store": "counts", "cached": True}


def defined(*steps: dict[str, Any]) -> Defined:
    last = {"op": "to", "on": steps[-1]["as"], "topic": "out"}
    return defined_outputs({"topology": [*steps, last], "input": [], "settings": []})["out"].defined


@pytest.mark.parametrize(
    "steps",
    [
        (STREAM, {"op": "filter", "as": "f", "on": "s", "fn": "always"}),
        (STREAM, GROUPED, {"op": "count", "as": "c", "on": "g", "store": "counts"}),
        (STREAM, TABLE, {"op": "join", "as": "j", "on": "s", "table": "t", "fn": "left|right"}),
    ],
    ids=["no store", "a store without a cache", "a lookup in a cached table"],
)
def test_every_record_is_defined_where_no_cache_merges_changes(steps: tuple[dict[str, Any], ...]) -> None:
    assert defined(*steps) is Defined.ORDER


@pytest.mark.parametrize(
    "step",
    [
        {"op": "to_stream", "on": "t"},
        {"op": "table_filter", "on": "t", "fn": "amount>10"},
        {"op": "table_join", "on": "t", "with": "t", "fn": "left|right"},
        {"op": "table_transform_values", "on": "t", "fn": "amount"},
    ],
    ids=lambda step: step["op"],
)
def test_the_last_value_is_defined_where_each_key_goes_on_by_itself(step: dict[str, Any]) -> None:
    assert defined(TABLE, {**step, "as": "x"}) is Defined.LAST_VALUES


@pytest.mark.parametrize(
    "steps",
    [
        (STREAM, GROUPED, COUNT, {"op": "to_stream", "as": "o", "on": "c"}, {"op": "select_key", "as": "k", "on": "o"}),
        (TABLE, {"op": "table_group_by", "as": "tg", "on": "t"}, {"op": "table_count", "as": "c", "on": "tg"}),
        (TABLE, {"op": "table_transform_values", "as": "v", "on": "t", "fn": "amount or -1"}),
        (
            STREAM,
            TABLE,
            {"op": "table_filter", "as": "f", "on": "t", "fn": "always", "store": "kept"},
            {"op": "join", "as": "j", "on": "s", "table": "f", "fn": "left|right"},
        ),
    ],
    ids=["another key", "groups", "values of deletions", "a lookup behind a cache"],
)
def test_nothing_is_defined_of_what_sees_every_change(steps: tuple[dict[str, Any], ...]) -> None:
    assert defined(*steps) is Defined.NOTHING


def test_caches_are_in_some_of_the_stores_and_their_changes_on_topics() -> None:
    cached = 0
    for seed in range(40):
        scenario = generate(seed)
        changed = with_caching(scenario, Random(seed))
        cached += (found := sum("cached" in step for step in changed["topology"]))
        steps = len(scenario["topology"])
        assert without_caching(changed)["topology"][:steps] == scenario["topology"]
        assert [step["op"] for step in changed["topology"][steps:]] == ["to_stream", "to"] * found
        assert not any("history" in step for step in changed["topology"] if "cached" in step)
    assert cached > 40
