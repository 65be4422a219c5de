"""Hand-written scenarios of table operators."""

from __future__ import annotations

from typing import Any

from tests.parity.scenario import Scenario

Step = dict[str, Any]
Record = list[Any]


def op(name: str, /, on: str | None = None, as_: str | None = None, **options: Any) -> Step:
    """One step of a topology."""
    step: Step = {"op": name, **options}
    return step | ({} if on is None else {"on": on}) | ({} if as_ is None else {"as": as_})


def row(topic: str, key: str | None, amount: int | None, timestamp: int, user: str | None = "x") -> Record:
    """An update of a table."""
    quoted = "null" if user is None else f'"{user}"'
    number = "null" if amount is None else str(amount)
    return [topic, key, f'{{"user":{quoted},"amount":{number}}}', timestamp]


def gone(topic: str, key: str | None, timestamp: int) -> Record:
    """A deletion."""
    return [topic, key, None, timestamp]


def _scenario(*steps: Step, records: list[Record], settings: tuple[str, ...] = ()) -> Scenario:
    return {"topology": list(steps), "input": records, "settings": list(settings)}


def _out(on: str, topic: str = "out") -> tuple[Step, Step]:
    return op("to_stream", on, f"{on}-stream"), op("to", f"{on}-stream", topic=topic)


UPDATES = [
    row("t", "a", 5, 10),
    row("t", "b", 12, 11, "y"),
    row("t", None, 20, 12),
    gone("t", "never", 12),
    row("t", "a", 14, 9, None),
    row("t", "a", 14, 20),
    gone("t", "a", 13),
    gone("t", "a", 13),
    row("t", "b", None, 30),
    row("t", "b", 13, 30, "y"),
    row("t", "b", 16, 31, "x"),
    row("t", "a", 3, 32),
    row("t", "a", 11, 32, "y"),
    row("t", "a", 2, 5),
    gone("t", "b", 40),
]
BOTH = [
    row("t", "a", 1, 0),
    row("u", "a", 10, 5),
    row("t", "a", 2, 6),
    row("t", "a", 3, 3),
    row("u", "a", 20, 2),
    row("u", "a", 21, 2),
    gone("t", "a", 8),
    gone("t", "a", 9),
    row("u", "a", 30, 10),
    gone("u", "a", 11),
    gone("u", "a", 1),
    gone("t", "b", 12),
    gone("u", "b", 12),
    row("t", "b", 5, 13),
    gone("t", "b", 14),
    row("u", "b", 6, 15),
    row("t", "b", 6, 16),
    row("t", "b", 7, 16),
    row("t", None, 7, 17),
    row("u", None, 7, 17),
    row("t", "c", 13, 18),
    row("u", "c", None, 19),
    row("u", "b", 8, 1),
]
SOURCES: dict[str, list[Step]] = {
    "an unstored table": [op("table", as_="t", topic="t")],
    "a stored table": [op("table", as_="t", topic="t", store="table")],
    "a to_table": [op("stream", as_="s", topics=["t"]), op("to_table", "s", "t", store="table")],
    "a reduced table": [
        op("stream", as_="s", topics=["t"]),
        op("group_by_key", "s", "g"),
        op("reduce", "g", "t", store="table", fn="sum, gone at multiples of 5"),
    ],
}


def _changed(source: str, name: str, fn: str, store: str | None) -> Scenario:
    options = {} if store is None else {"store": store}
    return _scenario(*SOURCES[source], op(name, "t", "r", fn=fn, **options), *_out("r"), records=UPDATES)


def _joined(kind: str, *, stored: bool = False, sources: bool = False, fn: str = "left|right") -> Scenario:
    return _scenario(
        op("table", as_="t", topic="t", **({"store": "left"} if sources else {})),
        op("table", as_="u", topic="u", **({"store": "right"} if sources else {})),
        op(kind, "t", "j", **{"with": "u"}, fn=fn, **({"store": "joined"} if stored else {})),
        *_out("j"),
        records=BOTH,
    )


def _grouped(name: str, by: str, fn: str = "", before: tuple[Step, ...] = ()) -> Scenario:
    return _scenario(
        op("table", as_="t", topic="t"),
        *before,
        op("table_group_by", before[-1]["as"] if before else "t", "g", fn=by),
        op(name, "g", "r", store="store", **({"fn": fn} if fn else {})),
        *_out("r"),
        records=UPDATES,
        settings=("compare repartition topics",),
    )


KINDS = ("table_join", "table_left_join", "table_outer_join")
TABLE_SCENARIOS: dict[str, Scenario] = {
    **{
        f"{name} {fn} of {source}{', stored' if store else ''}": _changed(source, name, fn, store)
        for source in SOURCES
        for name, fn in (
            ("table_filter", "amount>10"),
            ("table_filter_not", "amount>10"),
            ("table_map_values", "amount+1"),
            ("table_map_values", "null if odd"),
            ("table_transform_values", "amount or -1"),
        )
        for store in (None, "result")
    },
    **{f"{kind} of tables": _joined(kind) for kind in KINDS},
    **{f"{kind} of tables, stored": _joined(kind, stored=True) for kind in KINDS},
    **{f"{kind} of stored tables to null": _joined(kind, sources=True, fn="null if even") for kind in KINDS},
    **{
        f"a filter of a {kind}{', stored' if stored else ''}": _scenario(
            op("table", as_="t", topic="t"),
            op("table", as_="u", topic="u"),
            op(kind, "t", "j", **{"with": "u"}, fn="null if even", **({"store": "joined"} if stored else {})),
            op("table_filter", "j", "f", fn="amount>10"),
            *_out("f"),
            records=BOTH,
        )
        for kind in KINDS
        for stored in (False, True)
    },
    **{
        f"table_count by {by}": _grouped("table_count", by)
        for by in ("user, amount", "amount mod 3, value", "key or null, amount")
    },
    **{
        f"{name} {fn} by {by}": _grouped(name, by, fn)
        for by in ("user, amount", "amount mod 3, value")
        for name, fn in (
            ("table_reduce", "sum"),
            ("table_reduce", "latest"),
            ("table_reduce", "sum, gone at multiples of 5"),
            ("table_aggregate", "sum"),
            ("table_aggregate", "sum, gone at multiples of 5"),
            ("table_aggregate", "texts"),
        )
    },
    "grouped behind a filter": _grouped(
        "table_aggregate", "user, amount", "texts", (op("table_filter", "t", "f", fn="amount>10"),)
    ),
    "grouped behind a mapper": _grouped(
        "table_aggregate", "amount mod 3, value", "sum", (op("table_map_values", "t", "m", fn="amount+1"),)
    ),
    "grouped behind a transformer": _grouped(
        "table_aggregate", "amount mod 3, value", "texts", (op("table_transform_values", "t", "m", fn="amount or -1"),)
    ),
    "a chain of filter, map_values, join and group_by": _scenario(
        op("table", as_="t", topic="t"),
        op("table", as_="u", topic="u"),
        op("table_filter", "t", "f", fn="has amount"),
        op("table_map_values", "f", "m", fn="amount+1"),
        op("table_left_join", "m", "j", **{"with": "u"}, fn="null if even"),
        op("table_group_by", "j", "g", fn="amount mod 3, value"),
        op("table_aggregate", "g", "r", store="store", fn="texts"),
        *_out("j", "joined"),
        *_out("r"),
        records=BOTH,
        settings=("compare repartition topics",),
    ),
    "a filter made before a join reads the table": _scenario(
        op("table", as_="t", topic="t"),
        op("table", as_="u", topic="u"),
        op("table_filter", "t", "f", fn="amount>10"),
        op("table_join", "t", "j", **{"with": "u"}, fn="left|right"),
        *_out("f"),
        *_out("j", "joined"),
        records=BOTH,
    ),
    "a filter made after a join reads the table": _scenario(
        op("table", as_="t", topic="t"),
        op("table", as_="u", topic="u"),
        op("table_join", "t", "j", **{"with": "u"}, fn="left|right"),
        op("table_filter", "t", "f", fn="amount>10"),
        *_out("f"),
        *_out("j", "joined"),
        records=BOTH,
    ),
    **{
        f"{kind} of a table with {what} of itself": _scenario(
            op("table", as_="t", topic="t"),
            op(*made[:1], "t", "f", **made[1]),
            op(kind, "t", "j", **{"with": "f"}, fn="left|right"),
            op(kind, "f", "k", **{"with": "t"}, fn="left|right"),
            *_out("j"),
            *_out("k", "reversed"),
            records=UPDATES,
        )
        for kind in KINDS
        for what, made in (
            ("a filter", ("table_filter", {"fn": "amount>10"})),
            ("a stored filter", ("table_filter", {"fn": "amount>10", "store": "filtered"})),
            ("a mapper", ("table_map_values", {"fn": "amount+1"})),
        )
    },
    "joins of joins": _scenario(
        op("table", as_="t", topic="t"),
        op("table", as_="u", topic="u"),
        op("table_outer_join", "t", "j", **{"with": "u"}, fn="null if even"),
        op("table_left_join", "j", "k", **{"with": "t"}, fn="left|right"),
        op("table_join", "u", "l", **{"with": "j"}, fn="left|right"),
        *_out("k"),
        *_out("l", "inner"),
        records=BOTH,
    ),
    **{
        f"a stream's {kind} with {what}": _scenario(
            op("stream", as_="s", topics=["u"]),
            op("table", as_="t", topic="t"),
            *steps,
            op(kind, "s", "r", table="f", fn="left|right"),
            op("to", "r", topic="out"),
            records=BOTH,
        )
        for kind in ("join", "left_join")
        for what, steps in (
            ("a filter", [op("table_filter", "t", "f", fn="amount even")]),
            (
                "a mapper of a filter",
                [
                    op("table_filter", "t", "e", fn="amount even"),
                    op("table_map_values", "e", "f", fn="amount+1"),
                ],
            ),
            ("a transformer", [op("table_transform_values", "t", "f", fn="amount or -1")]),
            ("a stored mapper", [op("table_map_values", "t", "f", fn="amount+1", store="mapped")]),
            (
                "a join",
                [
                    op("table", as_="v", topic="v"),
                    op("table_left_join", "t", "f", **{"with": "v"}, fn="left|right"),
                ],
            ),
        )
    },
    "a filter of windowed sums": _scenario(
        op("stream", as_="s", topics=["t"]),
        op("group_by_key", "s", "g"),
        op("windowed_by", "g", "w", size=10, grace=5),
        op("reduce", "w", "t", store="sums", fn="sum"),
        op("table_filter", "t", "f", fn="amount>10"),
        *_out("f"),
        records=UPDATES,
    ),
    **{
        f"user code that raises in {step['op']}": _scenario(
            op("table", as_="t", topic="t"),
            op("table", as_="u", topic="u"),
            step,
            op("table_left_join", "u", "j", **{"with": "r"}, fn="left|right"),
            *_out("r"),
            *_out("j", "joined"),
            records=[*UPDATES, *BOTH],
            settings=("continue after processing errors", "dead letters"),
        )
        for step in (op("table_filter", "t", "r", fn="fails on 13"), op("table_map_values", "t", "r", fn="fails on 13"))
    },
}
