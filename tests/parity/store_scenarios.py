"""Hand-written scenarios of stores in other places than the default one, and without changelogs."""

from __future__ import annotations

from typing import Any

from tests.parity.scenario import Scenario
from tests.parity.table_scenarios import Record, Step, gone, op, row

# Three keys and room for two: "a" is read and written often enough to stay for a while.
CROWD = [
    row("in", "a", 1, 0),
    row("in", "b", 2, 1),
    row("in", "c", 3, 2),
    row("in", "b", 4, 3),
    row("in", "a", 5, 4),
    row("in", "c", 6, 5),
    row("in", "c", 7, 2),
    gone("in", "a", 6),
    row("in", "b", 8, 7),
    row("in", "d", 9, 8),
    row("in", "c", 10, 9),
    row("in", None, 11, 10),
    row("in", "d", 12, 11),
    row("in", "a", 13, 12),
]
LATE = [
    row("in", "k", 1, 0),
    row("in", "other", 2, 14),
    row("in", "k", 3, 3),
    row("in", "other", 4, 15),
    row("in", "k", 5, 4),
    row("in", "k", 6, 200_000),
    row("in", "k", 7, 80_000),
    row("in", "k", 8, 199_995),
    row("in", "other", 9, 400_000),
]
PAIRS = [
    row("left", "a", 1, 0),
    row("right", "a", 2, 5),
    row("right", "b", 3, 6),
    row("left", "a", 4, 40),
    row("left", "b", 5, 12),
    gone("right", "c", 70),
    gone("right", "c", 44),
    row("left", "a", 5, 44),
    row("right", "a", 6, 41),
    row("right", "a", 7, 41),
    row("left", "b", 8, 90_000),
    row("right", "b", 9, 8),
    row("left", "c", 10, 200_000),
    row("right", "c", 11, 199_995),
    row("left", "a", 12, 100_000),
    row("right", "a", 13, 100_000),
    row("left", "c", 14, 200_000),
]
TUMBLING = {"size": 10, "grace": 5}
SLIDING = {"difference": 10, "grace": 5}
SESSIONS = {"gap": 5, "grace": 3}
PLACES = ("memory", "disk", "lru 2", "lru 1")
LOGGED = ("memory", "disk")
"""In a table's changelog Kafka Streams leaves the keys that a map pushed out, other than in that of a plain store; ours
are deleted in both."""


def _scenario(*steps: Step, records: list[Record]) -> Scenario:
    return {"topology": [op("stream", as_="s", topics=["in"]), *steps], "input": records}


def _aggregated(name: str, fn: str = "", *, windows: Step | None = None, records: list[Record], **at: Any) -> Scenario:
    windowed = [op("windowed_by", "g", "w", **windows)] if windows else []
    return _scenario(
        op("group_by_key", "s", "g"),
        *windowed,
        op(name, "w" if windows else "g", "t", store="store", fn=fn, **at),
        op("to_stream", "t", "r"),
        op("to", "r", topic="out"),
        records=records,
    )


def _joined(kind: str, places: dict[str, str], **options: Any) -> Scenario:
    join = {
        "op": "stream_join",
        "on": "l",
        "with": "r",
        "as": "j",
        "kind": kind,
        "fn": "left|right",
        "before": 10,
        "after": 5,
        "grace": 3,
        "buffers": "near",
        "places": places,
        **options,
    }
    steps = [op("stream", as_="l", topics=["left"]), op("stream", as_="r", topics=["right"]), join]
    return {"topology": [*steps, op("to", "j", topic="out")], "input": PAIRS}


STORE_SCENARIOS: dict[str, Scenario] = {
    **{
        f"a {name} in {place}": _aggregated(name, fn, records=CROWD, place=place, logged=place in LOGGED)
        for name, fn in (("count", ""), ("reduce", "sum"))
        for place in PLACES
    },
    **{
        f"a table in {place} that a stream looks up": _scenario(
            op("to_table", "s", "t", store="store", place=place, logged=place in LOGGED),
            op("stream", as_="other", topics=["u"]),
            op("left_join", "other", "j", table="t", fn="left|right"),
            op("to", "j", topic="out"),
            records=[each for number, one in enumerate(CROWD) for each in (one, row("u", "abcd"[number % 4], 0, 20))],
        )
        for place in PLACES
    },
    **{
        f"a {name} of tumbling windows in {place}": _aggregated(
            name, fn, windows=TUMBLING, records=LATE, place=place, size=10, retention=retention
        )
        for name, fn in (("count", ""), ("reduce", "sum"))
        for place, retention in (("memory", 15), ("disk", 15))
    },
    **{
        f"a count of sessions in {place}": _aggregated(
            "count", windows=SESSIONS, records=LATE, place=place, retention=8
        )
        for place in ("memory", "disk")
    },
    "a count without a changelog": _aggregated("count", records=CROWD, logged=False),
    "a count in memory without a changelog": _aggregated("count", records=CROWD, logged=False, place="memory"),
    "a count of tumbling windows without a changelog": _aggregated(
        "count", windows=TUMBLING, records=LATE, logged=False
    ),
    "a count of sessions without a changelog": _aggregated("count", windows=SESSIONS, records=LATE, logged=False),
    **{
        f"{kind} join of streams with {' and '.join(f'the {side} one in {place}' for side, place in places.items())}": (
            _joined(kind, places)
        )
        for kind in ("inner", "left", "outer")
        for places in (
            {"left": "memory", "right": "memory"},
            {"left": "disk", "right": "memory"},
            {"left": "memory"},
            {"right": "disk"},
        )
    },
    **{
        f"{kind} join of streams at the same time, in {place}, {grace} ms of grace": _joined(
            kind, {"left": place, "right": place}, before=0, after=0, grace=grace
        )
        for kind in ("inner", "left", "outer")
        for place in ("memory", "disk")
        for grace in (0, 4)
    },
}
