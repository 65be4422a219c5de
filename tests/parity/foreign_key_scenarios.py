"""Hand-written scenarios of joins of tables by a foreign key: the left rows' ``user`` is a key of the right table."""

from __future__ import annotations

from tests.parity.scenario import Scenario
from tests.parity.table_scenarios import Record, Step, gone, op, row

LEFT, RIGHT = "t", "u"


def _scenario(*steps: Step, records: list[Record], settings: tuple[str, ...] = ()) -> Scenario:
    return {"topology": list(steps), "input": records, "settings": list(settings)}


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
FOREIGN_KEY_SCENARIOS: dict[str, Scenario] = {
    **{f"{kind} join by a foreign key": _joined(kind, BOTH_SIDES) for kind in KINDS},
    **{f"stored {kind} join by a foreign key": _joined(kind, BOTH_SIDES, stored=True) for kind in KINDS},
    **{f"named {kind} join by a foreign key": _joined(kind, BOTH_SIDES, name="orders") for kind in KINDS},
    **{f"{kind} join by a foreign key to null": _joined(kind, BOTH_SIDES, fn="null if even") for kind in KINDS},
}
