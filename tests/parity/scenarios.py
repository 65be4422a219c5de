"""Hand-written scenarios: one or more for each operator, and what surprises about it."""

from __future__ import annotations

from typing import Any

from tests.parity.functions import REDUCERS
from tests.parity.scenario import Scenario
from tests.parity.stream_join_scenarios import STREAM_JOINS

Step = dict[str, Any]
Record = list[Any]


def op(name: str, /, on: str | None = None, as_: str | None = None, **options: Any) -> Step:
    """One step of a topology."""
    step: Step = {"op": name, **options}
    return step | ({} if on is None else {"on": on}) | ({} if as_ is None else {"as": as_})


def source(name: str = "s", topic: str = "in", **options: Any) -> Step:
    """A stream."""
    return op("stream", as_=name, topics=[topic], **options)


def record(key: str | None, amount: int | None, timestamp: int, *, user: str | None = "x", topic: str = "in") -> Record:
    """An input record whose value is an object."""
    quoted = "null" if user is None else f'"{user}"'
    number = "null" if amount is None else str(amount)
    return [topic, key, f'{{"user":{quoted},"amount":{number}}}', timestamp]


def null(key: str | None, timestamp: int, topic: str = "in") -> Record:
    """An input record with a null value."""
    return [topic, key, None, timestamp]


def _scenario(*steps: Step, records: list[Record], settings: tuple[str, ...] = ()) -> Scenario:
    return {"topology": list(steps), "input": records, "settings": list(settings)}


MIXED = [
    record("a", 5, 10),
    record("b", 12, 11, user="y"),
    record(None, 20, 12),
    null("a", 13),
    record("a", 14, 9, user=None),
    record("b", None, 30),
    null(None, 31),
    record("c", 11, 32),
    record("a", 7, 33),
]


def _stateless(*steps: Step) -> Scenario:
    return _scenario(source(), *steps, op("to", "r", topic="out"), records=MIXED)


def _aggregated(name: str, fn: str = "", *, windows: Step | None = None, records: list[Record] = MIXED) -> Scenario:
    windowed = [op("windowed_by", "g", "w", **windows)] if windows else []
    return _scenario(
        source(),
        op("group_by_key", "s", "g"),
        *windowed,
        op(name, "w" if windows else "g", "t", store="store", fn=fn),
        op("to_stream", "t", "r"),
        op("to", "r", topic="out"),
        records=records,
    )


TUMBLING = {"size": 10, "grace": 5}
HOPPING = {"size": 10, "advance": 4, "grace": 3}
LATE = [
    record("k", 1, 0),
    record("other", 2, 14),
    record("k", 3, 3),
    record("other", 4, 15),
    record("k", 5, 4),
    record("k", 6, 16),
    null("k", 17),
    record(None, 7, 90),
    record("k", 8, 12),
    record("k", 9, 60),
    record("k", 10, 50),
    record("k", 11, 47),
]
JOINED = [
    record("a", 1, 0),
    record("a", 10, 5, topic="table"),
    record("a", 2, 6),
    record("a", 20, 3, topic="table"),
    record("a", 3, 7),
    record(None, 4, 8),
    record(None, 30, 8, topic="table"),
    null("a", 9),
    null("a", 10, topic="table"),
    record("a", 5, 11),
    record("b", 40, 12, topic="table"),
    record("b", 6, 2),
]
TABLE = op("table", as_="t", topic="table", store="table-store")


def _join(kind: str, fn: str = "left|right") -> Scenario:
    return _scenario(source(), TABLE, op(kind, "s", "r", table="t", fn=fn), op("to", "r", topic="out"), records=JOINED)


SESSIONS = {"gap": 10, "grace": 5}
SESSION_RECORDS = [
    record("k", 1, 0),
    record("k", 2, 10),
    record("k", 3, 31),
    record("k", 4, 21, user=None),
    record("k", 5, 20),
    null("k", 20),
    record(None, 6, 900),
    record("other", 7, 46),
    record("k", 8, 31),
    record("k", 9, 30),
    record("k", None, 41),
    record("other", 10, 57),
    record("k", 11, 41),
    record("k", 12, 42),
    record("late", 13, 41),
    record("late", 14, 42),
    record("k", 15, 300_000),
    record("k", 16, 300_000),
    record("k", 17, 299_989),
    record("k", 18, 299_990),
    record("k", 19, 42),
]
MERGING = [
    record("k", 20, 20),
    record("k", 1, 0),
    record("k", 10, 10),
    record("k", 6, 5),
    record("k", 16, 15),
    record("k", 7, 5),
    record("k", 30, 30),
    record("k", 26, 25),
    record("k", 41, 41),
    record("k", 40, 40),
    record("k", 35, 35),
]
SESSION_AGGREGATES = ("sum", "sum, gone at multiples of 5", "max", "min", "first", "last", "texts")
SESSION_SCENARIOS: dict[str, Scenario] = {
    "session count": _aggregated("count", windows=SESSIONS, records=SESSION_RECORDS),
    **{
        f"session reduce, {fn}": _aggregated("reduce", fn, windows=SESSIONS, records=SESSION_RECORDS) for fn in REDUCERS
    },
    **{
        f"session aggregate, {fn}": _aggregated("aggregate", fn, windows=SESSIONS, records=SESSION_RECORDS)
        for fn in SESSION_AGGREGATES
    },
    "sessions that merge, three to one": _aggregated("count", windows={"gap": 5, "grace": 100}, records=MERGING),
    **{
        f"sessions that merge from the oldest end, {fn}": _aggregated(
            "aggregate", fn, windows={"gap": 5, "grace": 100}, records=MERGING
        )
        for fn in SESSION_AGGREGATES
    },
    "sessions at gap and gap and one": _aggregated(
        "count", windows={"gap": 4, "grace": 10}, records=[record("k", 1, 0), record("k", 1, 10), record("k", 1, 5)]
    ),
    "sessions without gap": _aggregated(
        "count", windows={"gap": 0, "grace": 0}, records=[record("k", 1, 3), record("k", 1, 3), record("k", 1, 4)]
    ),
    "sessions without gap but with grace": _aggregated(
        "count",
        windows={"gap": 0, "grace": 2},
        records=[record("k", 1, 3), record("k", 1, 3), record("k", 1, 4), record("k", 1, 3), record("k", 1, 6)],
    ),
    "a session reduce of a null first value": _aggregated(
        "reduce", "latest", windows=SESSIONS, records=[null("k", 1), record("k", 2, 0), null("k", 3), record("k", 4, 2)]
    ),
    "a session that a late record keeps open": _aggregated(
        "aggregate",
        "texts",
        windows={"gap": 10, "grace": 0},
        records=[
            record("k", 1, 0),
            record("k", 2, 10),
            record("other", 3, 19),
            record("k", 4, 1),
            record("other", 5, 20),
            record("k", 6, 1),
            record("other", 7, 21),
            record("k", 8, 1),
            record("k", 9, 10),
            record("k", 10, 11),
        ],
    ),
    "sessions at the edge of the retention": _aggregated(
        "count",
        windows={"gap": 10, "grace": 0},
        records=[record("k", 1, 85), record("other", 2, 95), record("other", 3, 100), record("k", 4, 95)],
    ),
    "sessions behind a changed key": _scenario(
        source(),
        op("group_by", "s", "g", fn="user"),
        op("windowed_by", "g", "w", **SESSIONS),
        op("count", "w", "t", store="store"),
        op("to_stream", "t", "u"),
        op("select_key", "u", "r", fn="key@start"),
        op("to", "r", topic="out"),
        records=SESSION_RECORDS,
    ),
}

SLIDING = {"difference": 10, "grace": 5}
SLIDING_RECORDS = [
    *[record("k", number, time) for number, time in enumerate((100, 104, 110, 111, 121, 100, 110, 115, 112, 105, 106))],
    null("k", 500),
    record(None, 20, 500),
    *[record("k", number, time) for number, time in enumerate((128, 120, 118, 112, 111, 110, 126, 126), start=21)],
    record("other", 40, 137),
    record("k", 41, 122),
    record("k", 42, 121),
    record("other", 43, 300_000),
    record("k", 44, 299_990),
    record("k", 45, 299_985),
    record("k", 46, 299_984),
    record("other", 47, 299_996),
    record("other", 48, 300_011),
]
EARLY = [
    *[record("k", number, time) for number, time in enumerate((2, 5, 12))],
    *[record("e", number, time) for number, time in enumerate((9, 0, 4, 9, 10, 5, 3, 11, 20, 8, 1, 6, 21))],
    record("k", 30, 27),
    *[record("e", number, time) for number, time in enumerate((9, 10, 12), start=40)],
]
AGGREGATES_OF_A_WINDOW = ("sum", "sum, gone at multiples of 5", "max", "first", "last", "texts")
SLIDING_SCENARIOS: dict[str, Scenario] = {
    "sliding count": _aggregated("count", windows=SLIDING, records=SLIDING_RECORDS),
    "sliding count of records near the epoch": _aggregated("count", windows=SLIDING, records=EARLY),
    **{f"sliding reduce, {fn}": _aggregated("reduce", fn, windows=SLIDING, records=SLIDING_RECORDS) for fn in REDUCERS},
    **{
        f"sliding aggregate, {fn}": _aggregated("aggregate", fn, windows=SLIDING, records=SLIDING_RECORDS)
        for fn in AGGREGATES_OF_A_WINDOW
    },
    **{
        f"sliding aggregate near the epoch, {fn}": _aggregated("aggregate", fn, windows=SLIDING, records=EARLY)
        for fn in ("texts", "sum, gone at multiples of 5")
    },
    "textbook sliding windows": _aggregated(
        "aggregate",
        "texts",
        windows={"difference": 5000, "grace": 60_000},
        records=[record("A", 1, 8000), record("A", 2, 9200), record("A", 3, 12_400)],
    ),
    "a sliding window of one millisecond": _aggregated(
        "count",
        windows={"difference": 1, "grace": 0},
        records=[record("k", 1, time) for time in (0, 1, 2, 2, 4, 3, 9, 8, 7, 6)],
    ),
    "sliding windows exactly at their close": _aggregated(
        "aggregate",
        "texts",
        windows={"difference": 10, "grace": 0},
        records=[
            record("k", 1, 50),
            record("other", 2, 60),
            record("k", 3, 50),
            record("k", 4, 49),
            record("k", 5, 55),
            record("other", 6, 61),
            record("k", 7, 51),
            record("k", 8, 50),
        ],
    ),
    "unlimited count": _aggregated("count", windows={"start": 0}, records=LATE),
    "unlimited count from a start on": _aggregated("count", windows={"start": 15}, records=LATE),
    **{
        f"unlimited aggregate, {fn}": _aggregated("aggregate", fn, windows={"start": 4}, records=LATE)
        for fn in AGGREGATES_OF_A_WINDOW
    },
    "unlimited reduce": _aggregated("reduce", "sum", windows={"start": 4}, records=LATE),
}

SCENARIOS: dict[str, Scenario] = {
    **SESSION_SCENARIOS,
    **SLIDING_SCENARIOS,
    "filter": _stateless(op("filter", "s", "r", fn="amount>10")),
    "filter_not": _stateless(op("filter_not", "s", "r", fn="amount>10")),
    "filter by key": _stateless(op("filter", "s", "r", fn="key==a")),
    "map": _stateless(op("map", "s", "r", fn="user, amount")),
    "map_values": _stateless(op("map_values", "s", "r", fn="amount+1")),
    "map_values to null": _stateless(op("map_values", "s", "r", fn="null if odd")),
    "flat_map": _stateless(op("flat_map", "s", "r", fn="amount mod 3 keys")),
    "flat_map_values": _stateless(op("flat_map_values", "s", "r", fn="amount mod 3 times")),
    "select_key": _stateless(op("select_key", "s", "r", fn="user")),
    "peek": _stateless(op("peek", "s", "r")),
    "repartition": _stateless(op("select_key", "s", "k", fn="user"), op("repartition", "k", "r", name="again")),
    "branches that meet again keep the order": _stateless(
        op("branch", "s", branches=[{"fn": "amount>10", "as": "x"}, {"fn": "amount even", "as": "y"}], default="z"),
        op("flat_map_values", "x", "x2", fn="amount mod 3 times"),
        op("map_values", "z", "z2", fn="key"),
        op("merge", "x2", "m", **{"with": "y"}),
        op("merge", "m", "r", **{"with": "z2"}),
    ),
    "no default branch": _stateless(op("branch", "s", branches=[{"fn": "amount>10", "as": "r"}])),
    "ways that meet again take turns": _stateless(
        op("flat_map_values", "s", "x", fn="amount mod 3 times"),
        op("map_values", "s", "y", fn="amount+1"),
        op("merge", "x", "m", **{"with": "y"}),
        op("merge", "m", "r", **{"with": "s"}),
    ),
    "several sinks of one topic take turns": _scenario(
        source(),
        op("to", "s", topic="out"),
        op("map_values", "s", "x", fn="amount+1"),
        op("to", "x", topic="out"),
        op("flat_map", "x", "y", fn="amount mod 3 keys"),
        op("to", "y", topic="out"),
        records=MIXED,
    ),
    "count drops null keys and values": _aggregated("count"),
    "reduce": _aggregated("reduce", "sum"),
    "reduce to null": _aggregated("reduce", "sum, gone at multiples of 5"),
    **{
        f"aggregate, {fn}": _aggregated("aggregate", fn)
        for fn in ("sum", "sum, gone at multiples of 5", "max", "min", "first", "last", "texts")
    },
    "tumbling count drops late records": _aggregated("count", windows=TUMBLING, records=LATE),
    "tumbling reduce aggregates null values": _aggregated("reduce", "latest", windows=TUMBLING, records=LATE),
    "tumbling reduce of a null first value": _aggregated(
        "reduce", "latest", windows=TUMBLING, records=[null("k", 1), record("k", 2, 0), null("k", 3), record("k", 4, 2)]
    ),
    "hopping count": _aggregated("count", windows=HOPPING, records=LATE),
    "hopping count near the epoch": _aggregated(
        "count", windows=HOPPING, records=[record("k", 1, time) for time in (3, 7, 9, 10)]
    ),
    **{
        f"hopping aggregate, {fn}": _aggregated("aggregate", fn, windows=HOPPING, records=LATE)
        for fn in ("sum", "sum, gone at multiples of 5", "max", "texts")
    },
    "hopping windows of which some have closed": _aggregated(
        "count",
        windows={"size": 20, "advance": 10, "grace": 0},
        records=[record("k", 1, 50), record("k", 2, 35), record("k", 3, 45), record("k", 4, 28), record("k", 5, 51)],
    ),
    "an advance that does not divide the size": _aggregated(
        "count", windows={"size": 1600, "advance": 700, "grace": 0}, records=[record("k", 1, 1_709_315_512_577)]
    ),
    "a long jump of stream time expires windows": _aggregated(
        "count", windows=TUMBLING, records=[record("k", 1, 0), record("k", 2, 10_000_000), record("k", 3, 10_000_001)]
    ),
    "filtered records and null keys do not advance stream time": _scenario(
        source(),
        op("filter", "s", "f", fn="amount>10"),
        op("group_by_key", "f", "g"),
        op("windowed_by", "g", "w", size=10, grace=0),
        op("count", "w", "t", store="store"),
        op("to_stream", "t", "r"),
        op("to", "r", topic="out"),
        records=[record("k", 11, 1), record("k", 5, 99), record(None, 15, 98), record("k", 12, 2), record("k", 13, 20)],
    ),
    "group_by counts by the new key": _scenario(
        source(),
        op("group_by", "s", "g", fn="user"),
        op("count", "g", "t", store="store"),
        op("to_stream", "t", "r"),
        op("to", "r", topic="out"),
        records=MIXED,
    ),
    "a window's key as a plain one": _scenario(
        source(),
        op("group_by_key", "s", "g"),
        op("windowed_by", "g", "w", **HOPPING),
        op("count", "w", "t", store="store"),
        op("to_stream", "t", "u"),
        op("select_key", "u", "r", fn="key@start"),
        op("to", "r", topic="out"),
        records=LATE,
    ),
    "two aggregations of one group": _scenario(
        source(),
        op("group_by_key", "s", "g"),
        op("count", "g", "t", store="counts"),
        op("aggregate", "g", "u", store="sums", fn="sum"),
        op("to_stream", "t", "x"),
        op("to_stream", "u", "y"),
        op("to", "x", topic="counted"),
        op("to", "y", topic="summed"),
        records=MIXED,
    ),
    "table": _scenario(
        TABLE,
        op("to_stream", "t", "r"),
        op("to", "r", topic="out"),
        records=[row for row in JOINED if row[0] == "table"],
    ),
    "to_table": _scenario(
        source(),
        op("to_table", "s", "t", store="store"),
        op("to_stream", "t", "r"),
        op("to", "r", topic="out"),
        records=MIXED,
    ),
    "to_table of a changed key": _scenario(
        source(),
        op("select_key", "s", "k", fn="user"),
        op("to_table", "k", "t", store="store"),
        op("to_stream", "t", "r"),
        op("to", "r", topic="out"),
        records=MIXED,
    ),
    "join": _join("join"),
    "left_join": _join("left_join"),
    "join to null": _join("join", "null if even"),
    "left_join to null": _join("left_join", "null if even"),
    "join of a changed key": _scenario(
        source(),
        TABLE,
        op("select_key", "s", "k", fn="user"),
        op("join", "k", "r", table="t", fn="left|right"),
        op("to", "r", topic="out"),
        records=[record("x", 1, 0, topic="table"), *MIXED, record("x", 2, 50, topic="table"), *MIXED],
    ),
    "a stream joined with its own table sees the update only behind it": _scenario(
        source(),
        op("to_table", "s", "t", store="store"),
        op("join", "s", "r", table="t", fn="left|right"),
        op("to", "r", topic="out"),
        records=[record("a", 1, 0), record("a", 2, 1), null("a", 2), record("a", 3, 3), record("b", 4, 4)],
    ),
    "a stream joined with a table made later of itself": _scenario(
        source(),
        op("map_values", "s", "m", fn="amount"),
        op("to_table", "m", "t", store="store"),
        op("left_join", "s", "r", table="t", fn="left|right"),
        op("to", "r", topic="out"),
        records=[record("a", 1, 0), record("a", 2, 1), null("a", 2), record("a", 3, 3), record("b", 4, 4)],
    ),
    "a stream joined with its own counts": _scenario(
        source(),
        op("group_by_key", "s", "g"),
        op("count", "g", "t", store="store"),
        op("left_join", "s", "r", table="t", fn="left|right"),
        op("to", "r", topic="out"),
        records=MIXED,
    ),
    "a value that cannot be read goes to the dead letters": _scenario(
        source(),
        op("to", "s", topic="out"),
        records=[record("a", 1, 0), ["in", "b", "{not json", 5], record("a", 2, 1)],
        settings=("continue after deserialization errors", "dead letters"),
    ),
    **{
        f"user code that raises in {step['op']} goes to the dead letters": _scenario(
            source(),
            step,
            op("to", "r", topic="out"),
            records=[record("a", 1, 0), record("b", 13, 5), record("a", 2, 1)],
            settings=("continue after processing errors", "dead letters"),
        )
        for step in (op("filter", "s", "r", fn="fails on 13"), op("map_values", "s", "r", fn="fails on 13"))
    },
    "user code that raises in an aggregation goes to the dead letters": {
        **_aggregated(
            "aggregate",
            "sum, fails on 13",
            records=[record("a", 1, 0), record("a", 13, 50), record("a", 2, 1), record("b", 13, 3)],
        ),
        "settings": ["continue after processing errors", "dead letters"],
    },
    **{
        f"event time by the extractor {extractor!r}": _scenario(
            source(extractor=extractor),
            op("to", "s", topic="out"),
            op("group_by_key", "s", "g"),
            op("windowed_by", "g", "w", size=10, grace=5),
            op("count", "w", "t", store="store"),
            records=[
                *[record("a", amount, 100) for amount in (3, 14, 2, 30, 17)],
                *([] if "fail" in extractor else [record("a", None, 100), null("b", 50), record("a", -7, 3)]),
                *[record("b", amount, 0) for amount in (30, 25, 41)],
            ],
        )
        for extractor in ("amount", "amount, fails on 13", "amount or fail", "amount or skip")
    },
    "the partition time stands in for an invalid timestamp": _scenario(
        source(extractor="amount or partition time"),
        op("to", "s", topic="out"),
        records=[record("a", amount, 100) for amount in (3, None, 14, 2, -1, None, 30, -7)],
    ),
    "a stream and a table with event times of their own": _scenario(
        source(extractor="amount or skip"),
        op("table", as_="t", topic="table", store="store", extractor="amount"),
        op("left_join", "s", "r", table="t", fn="left|right"),
        op("to", "r", topic="out"),
        records=[
            record("a", 5, 100),
            record("a", 10, 1, topic="table"),
            record("a", 20, 1),
            record("a", None, 1, topic="table"),
            null("a", 7, topic="table"),
            record("a", None, 5),
            record("a", 8, 300),
        ],
    ),
    "the timestamps of a repartition topic are those that the extractor gave": _scenario(
        source(extractor="amount"),
        op("repartition", "s", "r", name="again"),
        op("to", "r", topic="out"),
        records=[record("a", 5, 100), record("a", 3, 1), record("a", -1, 1)],
    ),
    **STREAM_JOINS,
}

FATAL = {
    "an invalid timestamp": _scenario(
        source(extractor="amount or fail"),
        op("to", "s", topic="out"),
        records=[record("a", 1, 0), record("a", None, 5)],
    ),
    "an invalid timestamp before any valid one": _scenario(
        source(extractor="amount or partition time"), op("to", "s", topic="out"), records=[record("a", -1, 5)]
    ),
    "an extractor that raises": _scenario(
        source(extractor="amount, fails on 13"),
        op("to", "s", topic="out"),
        records=[record("a", 13, 0)],
        settings=("continue after processing errors", "continue after deserialization errors"),
    ),
}
"""Scenarios that no handler saves."""
