"""Hand-written scenarios of versioned tables (KIP-889, KIP-914) and of stream-table joins with grace (KIP-923)."""

from __future__ import annotations

from typing import Any

from tests.parity.scenario import Scenario
from tests.parity.table_scenarios import Record, Step, gone, op, row

HISTORY = 20
VERSIONED: dict[str, Any] = {"store": "table", "history": HISTORY, "segment_interval": 7}


def _scenario(*steps: Step, records: list[Record], settings: tuple[str, ...] = ()) -> Scenario:
    return {"topology": list(steps), "input": records, "settings": list(settings)}


def _out(on: str, topic: str = "out") -> tuple[Step, Step]:
    return op("to_stream", on, f"{on}-stream"), op("to", f"{on}-stream", topic=topic)


VERSIONS = [
    row("t", "a", 5, 10),
    row("t", "a", 12, 20),
    row("t", "a", 6, 15),
    row("t", "a", 7, 15),
    row("t", "a", 8, 3),
    row("t", None, 20, 12),
    gone("t", "b", 12),
    row("t", "b", 11, 5, "y"),
    row("t", "b", 12, 14, "y"),
    gone("t", "b", 14),
    row("t", "b", 13, 13, "y"),
    gone("t", "c", 16),
    row("t", "c", 1, 16),
    gone("t", "c", 16),
    row("t", "c", 2, 9),
    row("t", "d", 3, 18),
    gone("t", "d", 18),
    row("t", "d", 14, 4),
    row("t", "a", 30, 40),
    row("t", "a", 31, 20),
    row("t", "a", 32, 19),
    row("t", "a", 33, 21, "y"),
    gone("t", "a", 39),
    row("t", "b", 21, 19),
    row("t", "b", 22, 20),
    gone("t", "a", 41),
    row("t", "a", 23, 38),
    row("t", "b", 24, 70, "y"),
    row("t", "a", 25, 49),
    row("t", "a", 15, 50),
    row("t", "d", 16, 60, None),
    row("t", "d", 17, 55),
    gone("t", "d", 70),
    gone("t", "never", 71),
    row("t", "e", 4, 200),
    row("t", "e", 5, 180),
    row("t", "a", 6, 179),
    row("t", "a", 18, 199, "y"),
]
BOTH = [
    row("t", "a", 1, 10),
    row("s", "a", 100, 12),
    row("t", "a", 2, 20),
    row("s", "a", 101, 19),
    row("s", "a", 102, 20),
    row("t", "a", 3, 15),
    row("s", "a", 103, 16),
    row("s", "a", 104, 14),
    row("s", "b", 105, 21),
    row("s", None, 106, 21),
    ["s", "a", None, 22],
    gone("t", "a", 25),
    row("s", "a", 107, 24),
    row("s", "a", 108, 25),
    row("t", "b", 4, 22),
    row("t", "b", 5, 40),
    row("s", "b", 109, 30),
    row("s", "b", 110, 20),
    row("s", "a", 111, 5),
    row("s", "b", 112, 39),
    row("t", "b", 6, 30),
    row("s", "b", 113, 35),
    row("s", "b", 114, 35),
    row("s", "a", 115, 35),
    row("s", "c", 116, 35),
    row("t", "c", 7, 34),
    row("s", "c", 117, 45),
    row("s", "c", 118, 44),
    row("s", "a", 119, 100),
    row("t", "c", 8, 33),
    row("s", "c", 120, 34),
    row("s", "c", 121, 90),
    row("t", "c", 9, 100),
    row("s", "c", 122, 99),
    row("s", "d", 123, 120),
    row("s", "d", 124, 150),
]
SOURCES: dict[str, list[Step]] = {
    "a table": [op("table", as_="t", topic="t", **VERSIONED)],
    "a to_table": [op("stream", as_="s0", topics=["t"]), op("to_table", "s0", "t", **VERSIONED)],
    "a reduced table": [
        op("stream", as_="s0", topics=["t"]),
        op("group_by_key", "s0", "g"),
        op("reduce", "g", "t", fn="sum, gone at multiples of 5", **VERSIONED),
    ],
}
CHANGES = (
    ("table_filter", "amount>10"),
    ("table_filter_not", "amount>10"),
    ("table_map_values", "null if odd"),
    ("table_transform_values", "amount or -1"),
)
STORES: dict[str, dict[str, Any]] = {
    "": {},
    ", stored": {"store": "result"},
    ", versioned": {"store": "result", "history": 15},
}


def _function(fn: str) -> dict[str, Any]:
    return {"fn": fn} if fn else {}


KINDS = ("table_join", "table_left_join", "table_outer_join")


def _joined_with(kind: str, grace: int | None, *above: Step, table: str = "t", key: tuple[Step, ...] = ()) -> Scenario:
    on = key[-1]["as"] if key else "s"
    return _scenario(
        op("stream", as_="s", topics=["s"]),
        op("table", as_="t", topic="t", **VERSIONED),
        *above,
        *key,
        op(kind, on, "j", table=table, fn="left|right", **({} if grace is None else {"grace": grace})),
        op("to", "j", topic="out"),
        records=BOTH if kind == "join" or grace is None else [record for record in BOTH if record[1] is not None],
    )


VERSIONED_SCENARIOS: dict[str, Scenario] = {
    **{f"{source} versioned": _scenario(*steps, *_out("t"), records=VERSIONS) for source, steps in SOURCES.items()},
    "a versioned table with whole history": _scenario(
        op("table", as_="t", topic="t", store="table", history=100_000), *_out("t"), records=VERSIONS
    ),
    "a versioned table without history": _scenario(
        op("table", as_="t", topic="t", store="table", history=0), *_out("t"), records=VERSIONS
    ),
    **{
        f"{name} {fn} of {source} versioned{stored}": _scenario(
            *steps, op(name, "t", "r", fn=fn, **options), *_out("r"), records=VERSIONS
        )
        for source, steps in SOURCES.items()
        for name, fn in CHANGES
        for stored, options in STORES.items()
    },
    **{
        f"{name} {fn} of a plain table, versioned{before}": _scenario(
            op("table", as_="t", topic="t", **({"store": "plain"} if before else {})),
            op(name, "t", "r", fn=fn, **VERSIONED),
            *_out("r"),
            records=VERSIONS,
        )
        for name, fn in CHANGES
        for before in ("", " and stored before")
    },
    **{
        f"{kind} of versioned tables{stored}": _scenario(
            op("table", as_="t", topic="t", **VERSIONED),
            op("table", as_="u", topic="s", store="other", history=30),
            op(kind, "t", "j", **{"with": "u"}, fn="left|right", **options),
            *_out("j"),
            records=BOTH,
        )
        for kind in KINDS
        for stored, options in STORES.items()
    },
    **{
        f"{kind} of a versioned with a plain table": _scenario(
            op("table", as_="t", topic="t", **VERSIONED),
            op("table", as_="u", topic="s"),
            op(kind, "t", "j", **{"with": "u"}, fn="left|right"),
            op(kind, "u", "k", **{"with": "t"}, fn="left|right"),
            *_out("j"),
            *_out("k", "reversed"),
            records=BOTH,
        )
        for kind in KINDS
    },
    **{
        f"{name} {fn} by {by} of a versioned table{stored}": _scenario(
            op("table", as_="t", topic="t", **VERSIONED),
            op("table_group_by", "t", "g", fn=by),
            op(name, "g", "r", **_function(fn), **options),
            *_out("r"),
            records=VERSIONS,
            settings=("compare repartition topics",),
        )
        for by in ("user, amount", "amount mod 3, value")
        for name, fn in (("table_count", ""), ("table_reduce", "sum"), ("table_aggregate", "texts"))
        for stored, options in STORES.items()
        if stored
    },
    **{
        f"a group behind {what} of a versioned table": _scenario(
            op("table", as_="t", topic="t", **VERSIONED),
            step,
            op("table_group_by", "r", "g", fn="user, amount"),
            op("table_aggregate", "g", "a", store="sums", fn="texts"),
            *_out("r"),
            *_out("a", "sums"),
            records=VERSIONS,
            settings=("compare repartition topics",),
        )
        for what, step in (
            ("a filter", op("table_filter", "t", "r", fn="amount>10")),
            ("a stored filter", op("table_filter", "t", "r", fn="amount>10", store="filtered")),
            ("a versioned filter", op("table_filter", "t", "r", fn="amount>10", store="filtered", history=15)),
        )
    },
    **{
        f"versioned {name} {fn}{sends}": _scenario(
            op("stream", as_="s", topics=["t"]),
            op("group_by_key", "s", "g"),
            op(name, "g", "t", **_function(fn), **VERSIONED),
            *_out("t"),
            *below,
            records=VERSIONS,
        )
        for name, fn in (("count", ""), ("reduce", "latest"), ("aggregate", "texts"), ("aggregate", "max"))
        for sends, below in (
            ("", ()),
            (", with old values", (op("table_filter", "t", "f", fn="amount>10"), *_out("f", "filtered"))),
        )
    },
    **{f"a stream's {kind} with a versioned table": _joined_with(kind, None) for kind in ("join", "left_join")},
    **{
        f"a stream's {kind} with a versioned table, {grace} ms of grace": _joined_with(kind, grace)
        for kind in ("join", "left_join")
        for grace in (0, 1, 10, HISTORY)
    },
    **{
        f"a stream's {kind} with {what} of a versioned table, {grace} ms of grace": _joined_with(
            kind, grace, step, table="f"
        )
        for kind in ("join", "left_join")
        for grace in (None, 10)
        for what, step in (
            ("a filter", op("table_filter", "t", "f", fn="amount even")),
            ("a mapper", op("table_map_values", "t", "f", fn="amount+1")),
            ("a versioned mapper", op("table_map_values", "t", "f", fn="amount+1", store="mapped", history=12)),
        )
    },
    **{
        f"a stream's {kind} with a join of versioned tables": _joined_with(
            kind,
            None,
            op("table", as_="u", topic="u", store="other", history=9),
            op("table_left_join", "t", "f", **{"with": "u"}, fn="left|right"),
            table="f",
        )
        for kind in ("join", "left_join")
    },
    "a named join with grace behind a new key": _joined_with("join", 5, key=(op("select_key", "s", "k", fn="same"),)),
    **{
        f"a foreign-key {kind} join of versioned tables": _scenario(
            op("table", as_="t", topic="t", **VERSIONED),
            op("table", as_="u", topic="s", store="other", history=15),
            op("foreign_key_join", "t", "j", **{"with": "u"}, kind=kind, by="user", fn="left|right"),
            *_out("j"),
            records=[
                [topic, {"a": "x", "b": "y"}.get(key, key) if topic == "s" else key, *rest]
                for topic, key, *rest in BOTH
            ],
        )
        for kind in ("inner", "left")
    },
    "a versioned cogroup": _scenario(
        op("stream", as_="a", topics=["t"]),
        op("stream", as_="b", topics=["s"]),
        op("group_by_key", "a", "ga"),
        op("group_by_key", "b", "gb"),
        op("cogroup", as_="c", inputs=[{"on": "ga", "fn": "texts"}, {"on": "gb", "fn": "texts"}]),
        op("cogroup_aggregate", "c", "t", fn="texts", **VERSIONED),
        *_out("t"),
        records=BOTH,
    ),
    "a stream joined with grace twice": _scenario(
        op("stream", as_="s", topics=["s"]),
        op("table", as_="t", topic="t", **VERSIONED),
        op("join", "s", "j", table="t", fn="left|right", grace=3, name="first"),
        op("left_join", "s", "k", table="t", fn="left|right", grace=12, name="second"),
        op("to", "j", topic="first-out"),
        op("to", "k", topic="second-out"),
        records=[record for record in BOTH if record[1] is not None],
    ),
    "a table joined with its own stream": _scenario(
        op("table", as_="t", topic="t", **VERSIONED),
        op("to_stream", "t", "s"),
        op("filter", "s", "f", fn="has amount"),
        op("join", "f", "j", table="t", fn="left|right"),
        op("join", "f", "k", table="t", fn="left|right", grace=5),
        op("to", "j", topic="out"),
        op("to", "k", topic="later"),
        records=VERSIONS,
    ),
    "counts of a join with grace by window": _scenario(
        op("stream", as_="s", topics=["s"]),
        op("table", as_="t", topic="t", **VERSIONED),
        op("join", "s", "j", table="t", fn="left|right", grace=10),
        op("group_by_key", "j", "g"),
        op("windowed_by", "g", "w", size=10, grace=20),
        op("count", "w", "c", store="counts"),
        *_out("c"),
        records=BOTH,
    ),
}
