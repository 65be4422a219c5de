"""Hand-written scenarios of global tables and streams that are joined with them."""

from __future__ import annotations

from typing import Any

from tests.parity.scenario import Scenario
from tests.parity.table_scenarios import Record, Step, gone, op, row

RECORDS: list[Record] = [
    row("in", "early", 1, 5, "x"),
    row("g", "x", 10, 100),
    row("in", "a", 2, 1, "x"),
    row("in", None, 3, 2, "x"),
    row("in", "b", 4, 3, None),
    row("in", "b", 5, 3, "missing"),
    gone("in", "c", 4),
    gone("in", None, 4),
    row("g", None, 11, 101),
    row("g", "x", 12, 50),
    row("in", "a", 6, 200, "x"),
    gone("g", "x", 40),
    gone("g", "never", 41),
    row("in", "a", 7, 7, "x"),
    row("g", "x", None, 42),
    row("in", "a", 8, 8, "x"),
    row("g", "x", 13, 43, None),
    row("g", "m0", 14, 43),
    row("in", "a", 9, 9, "x"),
    row("in", "m0", 10, 9, "y"),
]


def _scenario(*steps: Step, records: list[Record] = RECORDS, settings: tuple[str, ...] = ()) -> Scenario:
    return {"topology": list(steps), "input": records, "settings": list(settings)}


TABLE = op("global_table", as_="g", topic="g", store="table")
STREAM = op("stream", as_="s", topics=["in"])


def _joined(kind: str, selector: str, fn: str = "left|right", **options: Any) -> Scenario:
    join = op(kind, "s", "j", table="g", selector=selector, fn=fn, **options)
    return _scenario(TABLE, STREAM, join, op("to", "j", topic="out"))


def _poison(*settings: str) -> Scenario:
    records = [["g", "x", "{not json", 1], row("g", "y", 1, 2), *RECORDS, ["g", "x", "{not json", 300]]
    join = op("global_left_join", "s", "j", table="g", selector="user", fn="left|right")
    return _scenario(TABLE, STREAM, join, op("to", "j", topic="out"), records=records, settings=settings)


GLOBAL_TABLE_SCENARIOS: dict[str, Scenario] = {
    **{
        f"a {kind} by {selector!r} of {fn!r}": _joined(kind, selector, fn)
        for kind in ("global_join", "global_left_join")
        for selector, fn in (("user", "left|right"), ("same", "left|right"), ("amount mod 3", "null if even"))
    },
    **{
        f"a {kind} whose joiner takes {takes}": _joined(kind, "user", takes=takes)
        for kind in ("global_join", "global_left_join")
        for takes in ("key", "both keys")
    },
    "a global table without a named store": _scenario(
        op("global_table", as_="g", topic="g"),
        STREAM,
        op("global_join", "s", "j", table="g", selector="user", fn="left|right"),
        op("to", "j", topic="out"),
    ),
    "a global table that nothing reads": _scenario(TABLE, STREAM, op("to", "s", topic="out")),
    "the timestamp extractor of a global table": _scenario(
        op("global_table", as_="g", topic="g", store="table", extractor="amount"),
        STREAM,
        op("global_join", "s", "j", table="g", selector="user", fn="left|right"),
        op("to", "j", topic="out"),
    ),
    "two joins with one global table, and one with another": _scenario(
        TABLE,
        op("global_table", as_="h", topic="h", store="other"),
        STREAM,
        op("global_left_join", "s", "one", table="g", selector="user", fn="left|right"),
        op("global_join", "s", "two", table="g", selector="same", fn="left|right"),
        op("global_left_join", "two", "three", table="h", selector="key", fn="null if even"),
        op("to", "one", topic="out"),
        op("to", "three", topic="out"),
        records=[row("h", "a", 3, 1), *RECORDS, row("h", "m0", 5, 2), row("in", "m0", 9, 50, "x")],
    ),
    "a global table that the application feeds itself": _scenario(
        TABLE,
        op("stream", as_="s", topics=["in", "more"]),
        op("filter", "s", "some", fn="amount even"),
        op("select_key", "some", "keyed", fn="user"),
        op("to", "keyed", topic="g"),
        op("global_left_join", "s", "j", table="g", selector="user", fn="left|right"),
        op("to", "j", topic="out"),
        # Each record in a batch of its own: within a batch a task does not see what it writes to the topic.
        records=[
            [("in", "more")[index % 2], *record[1:]]
            for index, record in enumerate(record for record in RECORDS if record[0] == "in")
        ],
    ),
    "a changed key in front of a global join, and a count behind it": _scenario(
        TABLE,
        STREAM,
        op("select_key", "s", "keyed", fn="user"),
        op("global_left_join", "keyed", "j", table="g", selector="same", fn="left|right"),
        op("group_by_key", "j", "grouped"),
        op("count", "grouped", "counted", store="counts"),
        op("to_stream", "counted", "c"),
        op("to", "c", topic="out"),
        settings=("compare repartition topics",),
    ),
    "a repartition in front of a left global join keeps null keys": _scenario(
        TABLE,
        STREAM,
        op("select_key", "s", "keyed", fn="user"),
        op("repartition", "keyed", "through", name="through"),
        op("global_left_join", "through", "j", table="g", selector="amount mod 3", fn="left|right"),
        op("to", "j", topic="out"),
        settings=("compare repartition topics",),
    ),
    "a repartition in front of an inner global join drops null keys": _scenario(
        TABLE,
        STREAM,
        op("select_key", "s", "keyed", fn="user"),
        op("repartition", "keyed", "through", name="through"),
        op("global_join", "through", "j", table="g", selector="amount mod 3", fn="left|right"),
        op("to", "j", topic="out"),
        settings=("compare repartition topics",),
    ),
    "a global join behind a table's changes": _scenario(
        TABLE,
        op("table", as_="t", topic="in", store="rows"),
        op("to_stream", "t", "s"),
        op("global_left_join", "s", "j", table="g", selector="user", fn="left|right"),
        op("to", "j", topic="out"),
    ),
    "unreadable records of a global table": _poison("continue after deserialization errors"),
    "a selector that fails": _scenario(
        TABLE,
        STREAM,
        op("global_left_join", "s", "j", table="g", selector="fails on 13", fn="left|right"),
        op("to", "j", topic="out"),
        records=[row("g", "a", 1, 0), row("in", "a", 13, 1), row("in", "a", 12, 2), row("in", "b", 13, 3)],
        settings=("continue after processing errors",),
    ),
}
