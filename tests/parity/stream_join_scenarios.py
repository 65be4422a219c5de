"""Hand-written scenarios of stream-stream joins."""

from __future__ import annotations

from typing import Any

Record = list[Any]
Scenario = dict[str, Any]
KINDS = ("inner", "left", "outer")
ONCE_A_SECOND = "null results at most once a second"
SINGLE_STORE = "single store self join"


def _left(key: str | None, amount: int | None, timestamp: int) -> Record:
    return _record("left", key, amount, timestamp)


def _right(key: str | None, amount: int | None, timestamp: int) -> Record:
    return _record("right", key, amount, timestamp)


def _record(topic: str, key: str | None, amount: int | None, timestamp: int, user: str = "x") -> Record:
    """A record; an amount of ``None`` is a null value."""
    value = None if amount is None else f'{{"user":"{user}","amount":{amount}}}'
    return [topic, key, value, timestamp]


def _join(
    kind: str, records: list[Record], *settings: str, before: int = 10, after: int = 10, grace: int = 0
) -> Scenario:
    steps = [
        {"op": "stream", "as": "l", "topics": ["left"]},
        {"op": "stream", "as": "r", "topics": ["right"]},
        _step(kind, "l", "r", before=before, after=after, grace=grace),
        {"op": "to", "on": "j", "topic": "out"},
    ]
    return {"topology": steps, "input": records, "settings": list(settings)}


def _step(kind: str, left: str, right: str, *, before: int = 10, after: int = 10, grace: int = 0) -> dict[str, Any]:
    return {
        "op": "stream_join",
        "on": left,
        "with": right,
        "as": "j",
        "kind": kind,
        "fn": "left|right",
        "before": before,
        "after": after,
        "grace": grace,
        "buffers": "near",
    }


def _of_one(kind: str, records: list[Record], *settings: str, **window: int) -> Scenario:
    steps = [
        {"op": "stream", "as": "s", "topics": ["in"]},
        _step(kind, "s", "s", **window),
        {"op": "to", "on": "j", "topic": "out"},
    ]
    return {"topology": steps, "input": records, "settings": list(settings)}


BOUNDARIES = [
    _left("k", 1, 100),
    _right("k", 2, 89),
    _right("k", 3, 90),
    _right("k", 4, 110),
    _right("k", 5, 111),
    _left("k", 6, 121),
    _left("k", 7, 122),
    _right("k", 8, 131),
    _right("k", 9, 300),
    _left("k", 10, 300),
]
ASYMMETRIC = [
    _left("k", 1, 100),
    *(_right("k", time, time) for time in (94, 95, 99, 100, 101, 120, 121)),
    _left("k", 2, 400),
]
ONLY_LATER = [_left("k", 1, 100), *(_right("k", time, time) for time in (104, 105, 110, 120, 121)), _left("k", 2, 400)]
OUT_OF_ORDER = [
    _left("k", 1, 100),
    _right("k", 2, 150),
    _left("k", 3, 145),
    _right("k", 4, 96),
    _left("k", 5, 60),
    _right("k", 6, 141),
    _left("k", 7, 160),
    _right("k", 8, 155),
    _left("other", 9, 151),
    _right("k", 10, 130),
    _right("other", 11, 190),
    _left("k", 12, 171),
    _left("k", 13, 185),
    _right("k", 14, 170),
    _right("far", 15, 500),
    _left("far", 16, 400),
    _left("far", 17, 510),
]
NULLS = [
    _left(None, 1, 100),
    _right(None, 2, 101),
    _left("k", None, 102),
    _right("k", None, 103),
    _left(None, None, 104),
    _right(None, None, 105),
    _left("k", 3, 106),
    _right("k", 4, 107),
    _left("a", 5, 108),
    _right("b", 6, 109),
    _left(None, 7, 160),
    _left("a", 8, 109),
    _right("b", 9, 110),
    _left("k", None, 200),
    _right("c", 10, 199),
    _right("c", 11, 200),
    _left("c", 12, 260),
    _right("c", 13, 320),
]
TIES = [
    _left("k", 1, 100),
    _left("k", 2, 100),
    _right("q", 3, 100),
    _right("k", 4, 100),
    _right("k", 5, 100),
    _left("k", 6, 100),
    _left("q", 7, 90),
    _left("m", 8, 100),
    _left("m", 9, 100),
    _right("m", 10, 121),
    _right("m", 11, 121),
    _left("a", 12, 121),
    _left("a", 13, 121),
    _right("a", 14, 121),
    _left("z", 15, 180),
    _right("z", 16, 240),
    _left("z", 17, 300),
]
WAITING = [
    _left("a", 1, 100),
    _right("b", 2, 100),
    _left("c", 3, 101),
    _right("a", 4, 102),
    _right("d", 5, 103),
    _left("b", 6, 115),
    _left("e", 7, 116),
    _right("e", 8, 117),
    _left("f", 9, 118),
    _right("g", 10, 130),
    _left("h", 11, 131),
    _right("c", 12, 106),
    _left("d", 13, 107),
    _left("i", 14, 160),
    _right("i", 15, 220),
    _right("j", 16, 280),
    _left("j", 17, 281),
    _left("k", 18, 400),
    _right("k", 19, 500),
]
PLAIN = [
    _record("in", "a", 1, 100),
    _record("in", "a", 2, 105),
    _record("in", "b", 3, 105),
    _record("in", "a", 4, 105),
    _record("in", None, 5, 106),
    _record("in", "a", None, 107),
    _record("in", "a", 6, 98),
    _record("in", "a", 7, 116),
    _record("in", "b", 8, 300),
    _record("in", "a", 9, 290),
    _record("in", "a", 10, 291),
    _record("in", "a", 11, 100),
    _record("in", "b", 12, 299),
]
CHANGED_KEYS = [
    _record("left", "p", 1, 100, "x"),
    _record("right", "q", 2, 101, "x"),
    _record("right", None, 3, 102, "y"),
    _record("left", None, 4, 103, "y"),
    ["left", "p", '{"user":null,"amount":5}', 104],
    ["right", "p", '{"user":null,"amount":6}', 105],
    _record("left", "p", 7, 200, "x"),
    _record("right", "q", 8, 300, "x"),
]


def _throttled() -> Scenario:
    records: list[Record] = []
    for number, record in enumerate(WAITING):
        records.append(record)
        records.append(["wall clock", None, None, (0, 999, 1, 400, 0, 700)[number % 6]])
    return _join("outer", records, ONCE_A_SECOND)


def _changed_keys(kind: str) -> Scenario:
    steps = [
        {"op": "stream", "as": "l", "topics": ["left"]},
        {"op": "stream", "as": "r", "topics": ["right"]},
        {"op": "select_key", "on": "l", "as": "lk", "fn": "user"},
        {"op": "select_key", "on": "r", "as": "rk", "fn": "user"},
        _step(kind, "lk", "rk", grace=5),
        {"op": "to", "on": "j", "topic": "out"},
    ]
    return {"topology": steps, "input": CHANGED_KEYS, "settings": []}


def _in_a_row() -> Scenario:
    """The result is joined again, with one of the inputs, and counted."""
    steps = [
        {"op": "stream", "as": "l", "topics": ["left"]},
        {"op": "stream", "as": "r", "topics": ["right"]},
        _step("outer", "l", "r", grace=5),
        {"op": "map_values", "on": "j", "as": "m", "fn": "key"},
        {**_step("left", "m", "l", after=30), "as": "again", "buffers": "again"},
        {"op": "to", "on": "again", "topic": "out"},
        {"op": "group_by_key", "on": "again", "as": "g"},
        {"op": "count", "on": "g", "as": "t", "store": "counts"},
        {"op": "to_stream", "on": "t", "as": "c"},
        {"op": "to", "on": "c", "topic": "counted"},
    ]
    return {"topology": steps, "input": OUT_OF_ORDER + WAITING, "settings": []}


def _ways_that_meet() -> Scenario:
    """Both sides come from one stream, by ways of different lengths, and the result meets the stream again."""
    steps = [
        {"op": "stream", "as": "s", "topics": ["in"]},
        {"op": "flat_map_values", "on": "s", "as": "f", "fn": "amount mod 3 times"},
        {"op": "filter", "on": "s", "as": "o", "fn": "amount even"},
        _step("outer", "f", "o", before=6, after=0, grace=2),
        {"op": "merge", "on": "j", "as": "m", "with": "s"},
        {"op": "to", "on": "m", "topic": "out"},
        {"op": "to", "on": "o", "topic": "out"},
    ]
    return {"topology": steps, "input": PLAIN, "settings": []}


STREAM_JOINS: dict[str, Scenario] = {
    name: scenario
    for kind in KINDS
    for name, scenario in {
        f"{kind} join of streams, bounds": _join(kind, BOUNDARIES),
        f"{kind} join of streams, bounds with grace": _join(kind, BOUNDARIES, grace=7),
        f"{kind} join of streams, asymmetric window": _join(kind, ASYMMETRIC, before=5, after=20),
        f"{kind} join of streams, later ones only": _join(kind, ONLY_LATER, before=-5, after=20),
        f"{kind} join of streams, earlier ones only": _join(kind, ASYMMETRIC, before=6, after=-1, grace=3),
        f"{kind} join of streams, before 0": _join(kind, ASYMMETRIC, before=0, after=20),
        f"{kind} join of streams, after 0": _join(kind, ASYMMETRIC, before=20, after=0, grace=10),
        f"{kind} join of streams, an empty window": _join(kind, TIES, before=0, after=0),
        f"{kind} join of streams, one point with grace": _join(kind, TIES, before=0, after=0, grace=4),
        f"{kind} join of streams, out of order": _join(kind, OUT_OF_ORDER),
        f"{kind} join of streams, out of order with grace": _join(kind, OUT_OF_ORDER, grace=30),
        f"{kind} join of streams, nulls": _join(kind, NULLS),
        f"{kind} join of streams, ties": _join(kind, TIES),
        f"{kind} join of streams, waiting": _join(kind, WAITING),
        f"{kind} join of streams, waiting with grace": _join(kind, WAITING, before=3, after=12, grace=20),
        f"{kind} join of streams, waiting, looked for once a second": _join(kind, WAITING, ONCE_A_SECOND),
        f"{kind} join of streams, waiting without a first look": _join(
            kind, WAITING, ONCE_A_SECOND, before=10, after=0
        ),
        f"{kind} join of streams, old records expire": _join(
            kind,
            [_left("k", 1, 0), _right("k", 2, 200_000), _left("k", 3, 200_001), _left("k", 4, 5), _right("k", 5, 7)],
        ),
        f"{kind} join of streams, near the epoch": _join(
            kind, [_left("k", 1, 0), _right("k", 2, 0), _right("k", 3, 1), _left("k", 4, 2)], before=-2, after=20
        ),
        f"{kind} join of changed keys": _changed_keys(kind),
        f"{kind} join of a stream with itself": _of_one(kind, PLAIN),
        f"{kind} join of a stream with itself, asymmetric": _of_one(kind, PLAIN, before=2, after=9, grace=3),
        f"{kind} join of a stream with itself over one store": _of_one(kind, PLAIN, SINGLE_STORE),
        f"{kind} join of a stream with itself over one store, asymmetric": _of_one(
            kind, PLAIN, SINGLE_STORE, before=9, after=2, grace=3
        ),
    }.items()
} | {
    "outer join of streams while the wall clock goes on": _throttled(),
    "joins of streams in a row": _in_a_row(),
    "ways that meet in a join of streams": _ways_that_meet(),
}
