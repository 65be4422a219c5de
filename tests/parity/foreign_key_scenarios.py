"""Hand-written scenarios of joins of tables by a foreign key: the left rows' ``user`` is a key of the right table."""

from __future__ import annotations

from typing import Any

from tests.parity.scenario import Scenario
from tests.parity.table_scenarios import Record, Step, gone, op, row

LEFT, RIGHT = "t", "u"


def _scenario(*steps: Step, records: list[Record], settings: tuple[str, ...] = ()) -> Scenario:
    """The steps with those of the records that they read."""
    read = {topic for step in steps for topic in (step.get("topic"), *step.get("topics", ()))}
    return {
        "topology": list(steps),
        "input": [record for record in records if record[0] in read],
        "settings": list(settings),
    }


def _out(on: str, topic: str = "out") -> tuple[Step, Step]:
    return op("to_stream", on, f"{on}-stream"), op("to", f"{on}-stream", topic=topic)


def _joined(
    kind: str, records: list[Record], *, stored: bool = False, name: str | None = None, fn: str = "left|right"
) -> Scenario:
    options = {**({"store": "joined"} if stored else {}), **({} if name is None else {"name": name})}
    return _scenario(
        op("table", as_="t", topic=LEFT, store="left"),
        op("table", as_="u", topic=RIGHT),
        op("foreign_key_join", "t", "j", **{"with": "u"}, kind=kind, by="user", fn=fn, **options),
        *_out("j"),
        records=records,
    )


BOTH_SIDES = [
    row(LEFT, "a", 1, 0, "x"),
    row(RIGHT, "x", 10, 5),
    row(LEFT, "b", 2, 6, "x"),
    row(RIGHT, "x", 11, 3),
    row(LEFT, "c", 3, 7, "y"),
    row(LEFT, "c", 3, 8, "y"),
    row(LEFT, "a", 4, 9, "y"),
    row(RIGHT, "y", 20, 9),
    row(LEFT, "a", 5, 4, "x"),
    row(LEFT, "a", 5, 4, "x"),
    gone(RIGHT, "x", 12),
    gone(RIGHT, "x", 2),
    row(LEFT, "b", 6, 13, None),
    row(LEFT, "b", 6, 13, None),
    row(RIGHT, "x", 12, 14),
    row(LEFT, "b", 7, 15, "x"),
    gone(LEFT, "b", 16),
    gone(LEFT, "b", 17),
    gone(LEFT, "never", 17),
    gone(RIGHT, "never", 17),
    row(LEFT, "b", 7, 1, "x"),
    row(LEFT, "c", 8, 18, "z"),
    gone(LEFT, "c", 19),
    row(LEFT, None, 8, 20, "x"),
    row(RIGHT, None, 8, 20),
    row(LEFT, "d", 9, 21, None),
    gone(LEFT, "d", 22),
    row(LEFT, "", 9, 21, "x"),
    row(RIGHT, "x", 13, 23),
    gone(RIGHT, "y", 24),
    gone(RIGHT, "x", 25),
]
KINDS = ("inner", "left")
SELF = [
    row("t", "x", 1, 0, "y"),
    row("t", "y", 2, 0, "x"),
    row("t", "z", 3, 5, "z"),
    row("t", "z", 4, 5, "z"),
    row("t", "a", 5, 6, "x"),
    row("t", "x", 6, 3, "z"),
    gone("t", "z", 7),
    row("t", "y", 7, 7, None),
    row("t", "z", 8, 7, "x"),
    gone("t", "x", 8),
    gone("t", "a", 8),
]
TABLES = (op("table", as_="t", topic=LEFT), op("table", as_="u", topic=RIGHT))
# Rows of a third table, with keys of both others.
THIRD = [
    row("v", "x", 101, 1, "y"),
    row("v", "m1", 102, 1, "y"),
    row("v", "m2", 103, 10, "y"),
    gone("v", "x", 11),
    row("v", "a", 104, 12, "y"),
    row("v", "x", 105, 13),
    gone("v", "m1", 30),
]


def _mixed() -> list[Record]:
    """Both sides and the third table, by turns."""
    turns = [BOTH_SIDES[index : index + 4] for index in range(0, len(BOTH_SIDES), 4)]
    return [record for index, turn in enumerate(turns) for record in (*turn, *THIRD[index : index + 1])]


def _versions(store: str, versioned: tuple[str, ...]) -> dict[str, Any]:
    """The options of a store, which is versioned or not."""
    return {"store": store, "history": 15, "segment_interval": 7} if store in versioned else {"store": store}


def _foreign(on: str, with_: str, as_: str, kind: str = "left", **options: Any) -> Step:
    return op("foreign_key_join", on, as_, **{"with": with_, "by": "user", "fn": "left|right", **options}, kind=kind)


def _reading(kind: str, *steps: Step, fn: str = "null if even", **options: str) -> Scenario:
    """Operators behind the join ``j``, whose rows are left rows."""
    return _scenario(
        *TABLES,
        op("table", as_="v", topic="v"),
        _foreign("t", "u", "j", kind, fn=fn, **options),
        *steps,
        records=_mixed(),
    )


FOREIGN_KEY_SCENARIOS: dict[str, Scenario] = {
    **{f"{kind} join by a foreign key": _joined(kind, BOTH_SIDES) for kind in KINDS},
    **{f"stored {kind} join by a foreign key": _joined(kind, BOTH_SIDES, stored=True) for kind in KINDS},
    **{f"named {kind} join by a foreign key": _joined(kind, BOTH_SIDES, name="orders") for kind in KINDS},
    **{f"{kind} join by a foreign key to null": _joined(kind, BOTH_SIDES, fn="null if even") for kind in KINDS},
    **{
        f"{kind} join of a table with itself by a foreign key": _scenario(
            op("table", as_="t", topic="t"), _foreign("t", "t", "j", kind), *_out("j"), records=SELF
        )
        for kind in KINDS
    },
    **{
        f"{kind} foreign-key join, read by {what}": _reading(kind, *steps)
        for kind in KINDS
        for what, steps in (
            ("a filter", (op("table_filter", "j", "r", fn="amount>10"), *_out("r"))),
            ("a stored filter", (op("table_filter", "j", "r", fn="amount>10", store="filtered"), *_out("r"))),
            ("a mapper", (op("table_map_values", "j", "r", fn="amount+1"), *_out("r"))),
            ("a join with its left table", (op("table_join", "j", "r", **{"with": "t"}, fn="left|right"), *_out("r"))),
            (
                "a left join of its left table",
                (op("table_left_join", "t", "r", **{"with": "j"}, fn="left|right"), *_out("r")),
            ),
            (
                "another table's outer join",
                (op("table_outer_join", "v", "r", **{"with": "j"}, fn="left|right"), *_out("r")),
            ),
            (
                "a grouping",
                (
                    op("table_group_by", "j", "g", fn="amount mod 3, value"),
                    op("table_aggregate", "g", "r", store="sums", fn="sum"),
                    *_out("r"),
                ),
            ),
            ("a second one", (_foreign("j", "v", "r"), *_out("r"))),
            ("a second one, by another key", (_foreign("j", "v", "r", "inner", by="amount mod 3"), *_out("r"))),
            ("one with its right table", (_foreign("j", "u", "r", "inner"), *_out("r"))),
            ("one of another table", (_foreign("v", "j", "r", by="key"), *_out("r"))),
            ("one of its own left table", (_foreign("t", "j", "r", by="key"), *_out("r"))),
        )
    },
    **{
        f"{kind} foreign-key joins of one table into one topic": _scenario(
            *TABLES,
            op("table", as_="v", topic="v"),
            _foreign("t", "u", "j", kind),
            _foreign("t", "v", "k", other, by="amount mod 3"),
            op("to_stream", "j", "js"),
            op("to_stream", "k", "ks"),
            op("merge", "js", "both", **{"with": "ks"}),
            op("to", "both", topic="out"),
            records=_mixed(),
        )
        for kind, other in (("inner", "left"), ("left", "inner"))
    },
    **{
        f"{kind} foreign-key join of {what}": _scenario(
            *steps, _foreign("l", "r", "j", kind, by=by), *_out("j"), records=_mixed()
        )
        for kind in KINDS
        for what, by, steps in (
            (
                "a filter",
                "user",
                (*TABLES, op("table_filter", "t", "l", fn="amount even"), op("table_filter", "u", "r", fn="amount>10")),
            ),
            (
                "stored mappers",
                "key",
                (
                    *TABLES,
                    op("table_map_values", "t", "l", fn="null if odd", store="mapped"),
                    op("table_map_values", "u", "r", fn="amount+1", store="mapped-too"),
                ),
            ),
            (
                "a join with sums",
                "user",
                (
                    *TABLES,
                    op("table", as_="v", topic="v"),
                    op("table_join", "t", "l", **{"with": "v"}, fn="null if even", store="joined"),
                    op("table_group_by", "u", "g", fn="user, amount"),
                    op("table_aggregate", "g", "r", store="sums", fn="sum"),
                ),
            ),
            (
                "re-keyed streams",
                "user",
                (
                    op("stream", as_="s", topics=[LEFT]),
                    op("select_key", "s", "k", fn="amount mod 3"),
                    op("to_table", "k", "l", store="left"),
                    op("stream", as_="q", topics=[RIGHT]),
                    op("select_key", "q", "p", fn="user"),
                    op("to_table", "p", "r", store="right"),
                ),
            ),
        )
    },
    **{
        f"{kind} foreign-key join of versioned tables, {', '.join(versioned)}": _scenario(
            op("table", as_="t", topic=LEFT, **_versions("left", versioned)),
            op("table", as_="u", topic=RIGHT, **_versions("right", versioned)),
            _foreign("t", "u", "j", kind, store="joined"),
            *_out("j"),
            records=BOTH_SIDES,
        )
        for kind in KINDS
        for versioned in (("left",), ("right",), ("left", "right"))
    },
    # Of the left join what is the newest version depends on which results there are in between.
    "an inner foreign-key join into a versioned table": _scenario(
        op("table", as_="t", topic=LEFT, store="left"),
        op("table", as_="u", topic=RIGHT, store="right"),
        _foreign("t", "u", "j", "inner", **_versions("joined", ("joined",))),
        *_out("j"),
        records=BOTH_SIDES,
    ),
    "a foreign-key extractor that raises": _scenario(
        *TABLES,
        _foreign("t", "u", "j", by="user, fails on 13"),
        *_out("j"),
        records=[*BOTH_SIDES, row(LEFT, "a", 13, 30, "x"), row(LEFT, "a", 12, 31, "x"), gone(LEFT, "a", 32)],
        settings=("continue after processing errors", "dead letters"),
    ),
}
