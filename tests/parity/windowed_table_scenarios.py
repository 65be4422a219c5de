"""Hand-written scenarios of joins whose tables have windows: each row is looked up by its key and window."""

from __future__ import annotations

from itertools import product
from typing import Any

from tests.parity.scenario import Scenario
from tests.parity.table_scenarios import gone, op, row

Step = dict[str, Any]
Record = list[Any]

TUMBLING: Step = {"size": 10, "grace": 20}
HOPPING: Step = {"size": 10, "advance": 4, "grace": 20}
SLIDING: Step = {"difference": 10, "grace": 20}
SESSIONS: Step = {"gap": 6, "grace": 20}
UNLIMITED: Step = {"start": 5}
WINDOWS = {
    "tumbling": TUMBLING,
    "hopping": HOPPING,
    "sliding": SLIDING,
    "session": SESSIONS,
    "unlimited": UNLIMITED,
}
KINDS = {"inner": "table_join", "left": "table_left_join", "outer": "table_outer_join"}

BOTH = [
    row("l", "a", 1, 1),
    row("r", "a", 2, 3),
    row("r", "a", 3, 4),
    row("l", "a", 4, 5),
    row("l", "b", 5, 6),
    row("r", "b", 6, 17),
    row("l", "b", 7, 18),
    gone("l", "a", 19),
    row("r", "a", 8, 2),
    row("r", "a", 10, 9),
    row("l", "a", 15, 12),
    row("l", "a", 1, 8),
    row("l", None, 1, 9),
    row("l", "a", 20, 40),
    row("r", "a", 21, 41),
    row("l", "b", 3, 11),
    row("r", "b", 4, 11),
    row("r", "b", 5, 30),
    row("l", "b", 5, 29),
]


LEFT = [record for record in BOTH if record[0] == "l"]


KEPT = 100
"""Retention with which no window expires while an answer to it is on its way, which depends on where batches end."""
BY_FOREIGN_KEY = [
    row("t", "m0", 100, 1),
    row("t", "m2", 300, 1),
    *LEFT[:4],
    row("t", "m1", 200, 19),
    *LEFT[4:6],
    row("t", "m2", 301, 20),
    gone("t", "m0", 21),
    *LEFT[6:],
    row("t", "m0", 101, 42),
]


def _table(source: str, name: str, windows: Step, *, retention: int | None = None, **options: Any) -> tuple[Step, ...]:
    """A windowed table of a topic."""
    kept = {} if retention is None else {"retention": retention}
    return (
        op("stream", None, f"{source}s", topics=[source]),
        op("group_by_key", f"{source}s", f"{source}g"),
        op("windowed_by", f"{source}g", f"{source}w", **windows, **options),
        op("aggregate", f"{source}w", name, store=f"{source}-store", fn="sum", **kept),
    )


def _scenario(*steps: Step, records: list[Record] = BOTH, settings: tuple[str, ...] = ()) -> Scenario:
    return {"topology": list(steps), "input": records, "settings": list(settings)}


def _out(on: str, topic: str = "out") -> tuple[Step, Step]:
    return op("to_stream", on, f"{on}-stream"), op("to", f"{on}-stream", topic=topic)


def _joined(kind: str, windows: Step, **options: Any) -> Scenario:
    return _scenario(
        *_table("l", "L", windows),
        *_table("r", "R", windows),
        op(KINDS[kind], "L", "J", fn="left|right", **options, **{"with": "R"}),
        *_out("J"),
    )


WINDOWED_TABLE_SCENARIOS: dict[str, Scenario] = {
    **{
        f"{kind} join of tables with {name} windows": _joined(kind, windows)
        for kind, (name, windows) in product(KINDS, WINDOWS.items())
    },
    **{
        f"stored {kind} join of tables with {name} windows": _joined(kind, WINDOWS[name], store="joined")
        for kind, name in product(KINDS, ("tumbling", "session"))
    },
    "windowed tables of which one was filtered and one mapped": _scenario(
        *_table("l", "L", TUMBLING),
        *_table("r", "R", TUMBLING),
        op("table_filter", "L", "F", fn="amount>10"),
        op("table_map_values", "R", "M", fn="amount+1"),
        op("table_outer_join", "F", "J", fn="left|right", **{"with": "M"}),
        *_out("J"),
    ),
    "a windowed table joined with what was made of it": _scenario(
        *_table("l", "L", HOPPING),
        op("table_map_values", "L", "M", fn="amount+1"),
        op("table_left_join", "L", "J", fn="left|right", **{"with": "M"}),
        *_out("J"),
        records=LEFT,
    ),
    "sessions joined with what was made of them": _scenario(
        *_table("l", "L", SESSIONS),
        op("table_filter", "L", "F", fn="amount even"),
        op("table_outer_join", "F", "J", fn="left|right", **{"with": "L"}),
        *_out("J"),
        records=LEFT,
    ),
    "a join of windowed tables is joined with a third": _scenario(
        *_table("l", "L", TUMBLING),
        *_table("r", "R", TUMBLING),
        *_table("m", "M", TUMBLING),
        op("table_left_join", "L", "J", fn="left|right", **{"with": "R"}),
        op("table_outer_join", "J", "K", fn="left|right", **{"with": "M"}),
        *_out("K"),
        records=[*BOTH[:6], row("m", "a", 9, 2), row("m", "b", 8, 12), *BOTH[6:], row("m", "b", 7, 13)],
    ),
    "a join of windowed tables is grouped": _scenario(
        *_table("l", "L", TUMBLING),
        *_table("r", "R", TUMBLING),
        op("table_map_values", "L", "A", fn="amount or -1"),
        op("table_outer_join", "A", "J", fn="left-right", **{"with": "R"}),
        op("table_group_by", "J", "G", fn="amount mod 3, value"),
        op("table_aggregate", "G", "S", store="sums", fn="sum"),
        *_out("S"),
    ),
    "a suppressed windowed table is joined": _scenario(
        *_table("l", "L", TUMBLING),
        *_table("r", "R", TUMBLING),
        op("suppress", "L", "P", name="held"),
        op("table_outer_join", "P", "J", fn="left|right", **{"with": "R"}),
        *_out("J"),
    ),
    "a join of windowed tables is suppressed until windows close": _scenario(
        *_table("l", "L", TUMBLING),
        *_table("r", "R", TUMBLING),
        op("table_left_join", "L", "J", fn="left|right", **{"with": "R"}),
        op("suppress", "J", "P", name="held"),
        *_out("P"),
    ),
    "a windowed table that sends on close is joined": _scenario(
        *_table("l", "L", TUMBLING, emit="close", retention=80),
        *_table("r", "R", TUMBLING),
        op("table_outer_join", "L", "J", fn="left|right", **{"with": "R"}),
        *_out("J"),
    ),
    "windows expire while they are joined": _scenario(
        *_table("l", "L", {"size": 10, "grace": 0}),
        *_table("r", "R", {"size": 10, "grace": 0}),
        op("table_outer_join", "L", "J", fn="left|right", **{"with": "R"}),
        *_out("J"),
        records=[
            row("l", "a", 1, 1),
            row("r", "a", 2, 2),
            row("l", "b", 3, 25),
            row("r", "a", 4, 3),
            row("r", "b", 5, 26),
            row("l", "a", 6, 4),
            row("l", "c", 7, 30),
            row("r", "b", 8, 27),
            row("r", "c", 9, 47),
            row("l", "c", 1, 38),
            row("r", "c", 2, 48),
        ],
    ),
    "a stream with the keys of windows is joined with a windowed table": _scenario(
        *_table("l", "L", TUMBLING),
        *_table("r", "R", TUMBLING),
        op("to_stream", "L", "S"),
        op("left_join", "S", "J", fn="left|right", table="R"),
        op("to", "J", topic="out"),
    ),
    **{
        f"{kind} join of a table with {name} windows by a foreign key": _scenario(
            *_table("l", "L", windows, retention=None if windows is UNLIMITED else KEPT),
            op("table", None, "T", topic="t", store="t-store"),
            op("foreign_key_join", "L", "J", kind=kind, by="amount mod 3", fn="left|right", **{"with": "T"}),
            *_out("J"),
            records=BY_FOREIGN_KEY,
        )
        for kind, (name, windows) in product(("inner", "left"), WINDOWS.items())
    },
    **{
        f"{kind} join with a windowed table by a foreign key": _scenario(
            *_table("l", "L", TUMBLING, retention=KEPT),
            *_table("r", "R", TUMBLING, retention=KEPT),
            op("foreign_key_join", "L", "J", kind=kind, by="same", fn="left|right", **{"with": "R"}),
            *_out("J"),
        )
        for kind in ("inner", "left")
    },
}
