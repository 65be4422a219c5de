"""Hand-written scenarios of suppressed tables."""

from __future__ import annotations

from typing import Any

from tests.parity.scenario import Scenario
from tests.parity.table_scenarios import Record, Step, gone, op, row


def _scenario(*steps: Step, records: list[Record], settings: tuple[str, ...] = ()) -> Scenario:
    return {"topology": list(steps), "input": records, "settings": list(settings)}


def _windowed(*, aggregate: str = "count", fn: str = "", **windows: int) -> tuple[Step, ...]:
    return (
        op("stream", as_="s", topics=["in"]),
        op("group_by_key", "s", "grouped"),
        op("windowed_by", "grouped", "windows", **windows),
        op(aggregate, "windows", "t", store="counts", fn=fn),
    )


def _table(topic: str = "t", as_: str = "t") -> Step:
    return op("table", as_=as_, topic=topic, store=f"{topic}-store")


def _suppress(on: str = "t", as_: str = "u", **options: Any) -> Step:
    return op("suppress", on, as_, **{"name": "held", **options})


def _out(on: str = "u", topic: str = "out") -> tuple[Step, Step]:
    return op("to_stream", on, f"{on}-stream"), op("to", f"{on}-stream", topic=topic)


def _with_headers(record: Record, **headers: str) -> Record:
    return [*record, headers]


BOUNDARIES = [
    row("in", "k", 1, 1),
    row("in", "k", 2, 9),
    row("in", "o", 3, 10),
    row("in", "k", 4, 3),
    row("in", "o", 5, 14),
    row("in", "k", 6, 9),
    row("in", "o", 7, 15),
    row("in", "k", 8, 9),
    row("in", None, 9, 90),
    row("in", "b", 10, 24),
    row("in", "a", 11, 24),
    row("in", "o", 12, 25),
    row("in", "a", None, 40),
    ["in", "b", None, 41],
    row("in", "a", 3, 200),
    row("in", "a", 3, 100),
    row("in", "b", 3, 215),
    row("in", "b", 3, 216),
]
SESSIONS = [
    row("in", "k", 1, 0),
    row("in", "k", 2, 20),
    row("in", "k", 3, 10),
    row("in", "j", 4, 31),
    row("in", "k", 5, 36),
    row("in", "j", 6, 45),
    row("in", "k", 7, 30),
    row("in", "k", 8, 35),
    row("in", "j", 9, 60),
    row("in", "k", 10, 61),
    row("in", "j", 11, 200),
    row("in", "j", 11, 216),
]
UPDATES = [
    row("t", "a", 5, 10),
    row("t", "b", 12, 11, "y"),
    row("t", "a", 6, 12),
    gone("t", "never", 12),
    row("t", "a", 7, 9, None),
    row("t", "c", 1, 19),
    row("t", "c", 2, 20),
    row("t", "b", 13, 21),
    gone("t", "b", 22),
    row("t", "d", 3, 5),
    row("t", "d", 4, 31),
    row("t", "a", None, 31),
    gone("t", "a", 32),
    row("t", "e", 14, 33),
    row("t", "f", 16, 33, "y"),
    row("t", "e", 17, 43),
    row("t", "g", 1, 100),
    row("t", "g", 2, 110),
]
BOTH = [
    row("t", "a", 1, 0),
    row("o", "a", 100, 1),
    row("t", "a", 2, 3),
    row("o", "a", 101, 4),
    row("t", "b", 3, 10),
    row("o", "a", 102, 10),
    row("o", "b", 103, 11),
    row("t", "a", 4, 12),
    gone("o", "a", 13),
    row("o", "a", 104, 14),
    gone("t", "b", 15),
    row("o", "b", 105, 16),
    row("t", "c", 5, 25),
    row("o", "b", 106, 26),
    row("o", "a", 107, 27),
    gone("o", "b", 40),
    row("t", "c", 6, 60),
    row("t", "d", 6, 61),
    row("o", "c", 108, 62),
    row("t", "d", 7, 80),
    row("o", "d", 109, 81),
]
STREAM_AND_TABLE = [["in" if topic == "o" else topic, *rest] for topic, *rest in BOTH]

SUPPRESS_SCENARIOS: dict[str, Scenario] = {
    "final results of tumbling windows": _scenario(
        *_windowed(size=10, grace=5), _suppress(), *_out(), records=BOUNDARIES
    ),
    "final results of tumbling windows without grace": _scenario(
        *_windowed(size=10, grace=0), _suppress(), *_out(), records=BOUNDARIES
    ),
    "final results of hopping windows": _scenario(
        *_windowed(size=10, advance=4, grace=5), _suppress(), *_out(), records=BOUNDARIES
    ),
    "final results of sliding windows": _scenario(
        *_windowed(difference=10, grace=5), _suppress(), *_out(), records=BOUNDARIES
    ),
    "a sliding window has two final results at the exact limit": _scenario(
        *_windowed(difference=10, grace=5),
        _suppress(),
        *_out(),
        records=[row("in", "k", 1, 20), row("in", "j", 1, 35), row("in", "k", 1, 19), row("in", "j", 1, 36)],
    ),
    "final results of sessions": _scenario(*_windowed(gap=10, grace=5), _suppress(), *_out(), records=SESSIONS),
    "final results of sessions without grace": _scenario(
        *_windowed(gap=10, grace=0), _suppress(), *_out(), records=SESSIONS
    ),
    "final results of an unlimited window never come": _scenario(
        *_windowed(start=0), _suppress(), *_out(), records=BOUNDARIES
    ),
    "final results that are gone do not come": _scenario(
        *_windowed(size=10, grace=5, aggregate="reduce", fn="sum, gone at multiples of 5"),
        _suppress(),
        *_out(),
        records=BOUNDARIES,
    ),
    "results that are gone come at a time limit": _scenario(
        *_windowed(size=10, grace=5, aggregate="reduce", fn="sum, gone at multiples of 5"),
        _suppress(limit=7),
        *_out(),
        records=BOUNDARIES,
    ),
    "final results of mapped and filtered windows": _scenario(
        *_windowed(size=10, grace=5, aggregate="aggregate", fn="sum"),
        op("table_map_values", "t", "mapped", fn="amount+1"),
        op("table_filter", "mapped", "filtered", fn="amount even"),
        _suppress("filtered"),
        *_out(),
        records=BOUNDARIES,
    ),
    "final results are filtered and mapped": _scenario(
        *_windowed(size=10, grace=5, aggregate="reduce", fn="sum"),
        _suppress(),
        op("table_filter", "u", "filtered", fn="amount even"),
        op("table_map_values", "filtered", "mapped", fn="amount+1"),
        *_out("mapped"),
        *_out("u", "all"),
        records=BOUNDARIES,
    ),
    "final results after a change of keys": _scenario(
        op("stream", as_="s", topics=["in"]),
        op("group_by", "s", "grouped", fn="amount mod 3"),
        op("windowed_by", "grouped", "windows", size=10, grace=0),
        op("count", "windows", "t", store="counts"),
        _suppress(),
        *_out(),
        records=BOUNDARIES,
    ),
    "final results as a table of other keys": _scenario(
        *_windowed(size=10, grace=0),
        _suppress(),
        op("to_stream", "u", "results"),
        op("select_key", "results", "keyed", fn="key@start"),
        op("to_table", "keyed", "table", store="finals"),
        *_out("table"),
        records=BOUNDARIES,
    ),
    "final results from a buffer of enough records": _scenario(
        *_windowed(size=10, grace=5), _suppress(records=3), *_out(), records=BOUNDARIES
    ),
    "a strict buffer that is full fails a record and keeps it": _scenario(
        *_windowed(size=10, grace=5),
        _suppress(records=1),
        *_out(),
        records=BOUNDARIES,
        settings=("continue after processing errors",),
    ),
    "a strict buffer with too many bytes": _scenario(
        *_windowed(size=10, grace=5),
        _suppress(bytes=120),
        *_out(),
        records=BOUNDARIES,
        settings=("continue after processing errors",),
    ),
    "headers of final results and in the changelog": _scenario(
        *_windowed(size=10, grace=5),
        _suppress(),
        *_out(),
        records=[
            _with_headers(row("in", "k", 1, 1), a="x", b=""),
            _with_headers(row("in", "k", 1, 2), c="ä"),
            row("in", "o", 1, 14),
            _with_headers(row("in", "o", 1, 15), d="y"),
            _with_headers(row("in", "o", 1, 40), e="z"),
        ],
        settings=("compare headers",),
    ),
    "headers and sessions": _scenario(
        *_windowed(gap=10, grace=5),
        _suppress(),
        *_out(),
        records=[_with_headers(record, at=str(record[3])) for record in SESSIONS],
        settings=("compare headers",),
    ),
    "a time limit": _scenario(_table(), _suppress(limit=10), *_out(), records=UPDATES),
    "a time limit of 0": _scenario(_table(), _suppress(limit=0), *_out(), records=UPDATES),
    "a time limit that never comes": _scenario(_table(), _suppress(limit=10**12), *_out(), records=UPDATES),
    "at most two records": _scenario(_table(), _suppress(limit=10, records=2, full="emit"), *_out(), records=UPDATES),
    "at most no record": _scenario(_table(), _suppress(limit=10, records=0, full="emit"), *_out(), records=UPDATES),
    "at most 170 bytes": _scenario(_table(), _suppress(limit=25, bytes=170, full="emit"), *_out(), records=UPDATES),
    "at most 240 bytes with headers": _scenario(
        _table(),
        _suppress(limit=25, bytes=240, full="emit"),
        *_out(),
        records=[_with_headers(record, name="x" * (record[3] % 7), ä="ö") for record in UPDATES],
        settings=("compare headers",),
    ),
    "at most two records and 170 bytes": _scenario(
        _table(), _suppress(limit=10**9, records=2, bytes=170, full="emit"), *_out(), records=UPDATES
    ),
    "a time limit and a strict buffer": _scenario(
        _table(),
        _suppress(limit=10, records=2),
        *_out(),
        records=UPDATES,
        settings=("continue after processing errors",),
    ),
    "a buffer without a changelog": _scenario(_table(), _suppress(limit=10, logged=False), *_out(), records=UPDATES),
    "a filtered table at a time limit": _scenario(
        _table(), op("table_filter", "t", "f", fn="amount>10"), _suppress("f", limit=10), *_out(), records=UPDATES
    ),
    "a time limit, then a stored filter": _scenario(
        _table(),
        _suppress(limit=10),
        op("table_filter", "u", "f", fn="amount>10", store="filtered"),
        *_out("f"),
        records=UPDATES,
    ),
    "a time limit, then a filter": _scenario(
        _table(), _suppress(limit=10), op("table_filter", "u", "f", fn="amount>10"), *_out("f"), records=UPDATES
    ),
    "a suppressed table that is grouped takes back the value just before": _scenario(
        _table(),
        _suppress(limit=10),
        op("table_group_by", "u", "grouped", fn="user, amount"),
        op("table_reduce", "grouped", "totals", fn="sum", store="totals"),
        *_out("totals"),
        records=UPDATES,
        settings=("compare repartition topics",),
    ),
    "a grouped table at a time limit": _scenario(
        _table(),
        op("table_group_by", "t", "grouped", fn="user, amount"),
        op("table_aggregate", "grouped", "totals", fn="sum", store="totals"),
        _suppress("totals", limit=10),
        *_out(),
        records=UPDATES,
    ),
    "two limits in a row": _scenario(
        _table(),
        _suppress(limit=5),
        _suppress("u", "v", limit=8, name="again", logged=False),
        *_out("v"),
        *_out("u", "first"),
        records=UPDATES,
    ),
    **{
        f"{kind} join of a suppressed table with another": _scenario(
            _table(),
            _table("o", "o"),
            _suppress(limit=10),
            op(f"table_{kind}", "u", "joined", fn="left|right", **{"with": "o"}),
            *_out("joined"),
            records=BOTH,
        )
        for kind in ("join", "left_join", "outer_join")
    },
    **{
        f"{kind} join of a table with a suppressed one": _scenario(
            _table(),
            _table("o", "o"),
            _suppress(limit=10, records=1, full="emit"),
            op(f"table_{kind}", "o", "joined", fn="left|right", store="joined", **{"with": "u"}),
            *_out("joined"),
            records=BOTH,
        )
        for kind in ("join", "left_join", "outer_join")
    },
    "a suppressed table joined with itself, mapped": _scenario(
        _table(),
        _suppress(limit=10),
        op("table_map_values", "u", "mapped", fn="amount+1"),
        op("table_left_join", "u", "joined", fn="left|right", **{"with": "mapped"}),
        *_out("joined"),
        records=UPDATES,
    ),
    "a suppressed table joined with the table itself": _scenario(
        _table(),
        _suppress(limit=10),
        op("table_outer_join", "t", "joined", fn="left|right", **{"with": "u"}),
        *_out("joined"),
        records=UPDATES,
    ),
    "a join of joins with suppressed tables": _scenario(
        _table(),
        _table("o", "o"),
        _suppress(limit=10),
        _suppress("o", "p", limit=3, name="other"),
        op("table_join", "u", "joined", fn="left|right", **{"with": "p"}),
        op("table_outer_join", "joined", "again", fn="left|right", **{"with": "o"}),
        *_out("again"),
        records=BOTH,
    ),
    "a suppressed join": _scenario(
        _table(),
        _table("o", "o"),
        op("table_outer_join", "t", "joined", fn="left|right", **{"with": "o"}),
        op("table_map_values", "joined", "mapped", fn="amount or -1"),
        _suppress("mapped", limit=10),
        *_out(),
        records=BOTH,
    ),
    "a stream looks a suppressed table up": _scenario(
        op("stream", as_="s", topics=["in"]),
        _table(),
        _suppress(limit=10),
        op("left_join", "s", "joined", table="u", fn="left|right"),
        op("to", "joined", topic="out"),
        *_out("u", "table"),
        records=STREAM_AND_TABLE,
    ),
    "a stream looks a filter of a suppressed table up": _scenario(
        op("stream", as_="s", topics=["in"]),
        _table(),
        _suppress(limit=10),
        op("table_filter_not", "u", "f", fn="amount even"),
        op("left_join", "s", "joined", table="f", fn="left|right"),
        op("to", "joined", topic="out"),
        records=STREAM_AND_TABLE,
    ),
    "a table of its own stream, suppressed and looked up": _scenario(
        op("stream", as_="s", topics=["in"]),
        op("to_table", "s", "t", store="latest"),
        _suppress(limit=3),
        op("left_join", "s", "joined", table="u", fn="left|right"),
        op("to", "joined", topic="out"),
        records=[row("in", key, at, at) for at, key in enumerate("aababbcac")],
    ),
}
