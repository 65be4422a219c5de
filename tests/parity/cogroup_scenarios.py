"""Hand-written scenarios of cogroups."""

from __future__ import annotations

from typing import Any

from tests.parity.scenario import Scenario

Record = list[Any]
Step = dict[str, Any]

WINDOWS: dict[str, Step] = {
    "tumbling": {"size": 10, "grace": 0},
    "hopping with grace": {"size": 20, "advance": 7, "grace": 5},
    "sliding": {"difference": 10, "grace": 0},
    "sliding with grace": {"difference": 7, "grace": 20},
    "sessions": {"gap": 5, "grace": 0},
    "sessions with grace": {"gap": 10, "grace": 30},
    "an unlimited window": {"start": 4},
}


def _one(key: str | None, amount: int | None, timestamp: int) -> Record:
    return _record("one", key, amount, timestamp)


def _two(key: str | None, amount: int | None, timestamp: int) -> Record:
    return _record("two", key, amount, timestamp)


def _record(topic: str, key: str | None, amount: int | None, timestamp: int, user: str = "x") -> Record:
    """A record; an amount of ``None`` is a null value."""
    value = None if amount is None else f'{{"user":"{user}","amount":{amount}}}'
    return [topic, key, value, timestamp]


def _grouped(*topics: str) -> list[Step]:
    steps: list[Step] = []
    for topic in topics:
        steps.append({"op": "stream", "as": topic, "topics": [topic]})
        steps.append({"op": "group_by_key", "on": topic, "as": f"by {topic}"})
    return steps


def _cogroup(
    records: list[Record],
    fn: str,
    *adders: str,
    windows: Step | None = None,
    groups: list[Step] | None = None,
    inputs: tuple[str, ...] = ("by one", "by two"),
    settings: tuple[str, ...] = (),
) -> Scenario:
    steps = [
        *(groups or _grouped("one", "two")),
        {
            "op": "cogroup",
            "as": "c",
            "inputs": [{"on": on, "fn": adder} for on, adder in zip(inputs, adders, strict=True)],
        },
    ]
    if windows is not None:
        steps.append({"op": "windowed_by", "on": "c", "as": "w", **windows})
    steps += [
        {"op": "cogroup_aggregate", "on": "c" if windows is None else "w", "as": "t", "fn": fn, "store": "both"},
        {"op": "to_stream", "on": "t", "as": "s"},
        {"op": "to", "on": "s", "topic": "out"},
    ]
    return {"topology": steps, "input": records, "settings": list(settings)}


MIXED = [
    _one("a", 1, 0),
    _two("a", 2, 3),
    _two("b", 3, 4),
    _one(None, 4, 50),
    _one("a", None, 5),
    _two("a", None, 6),
    _two(None, None, 7),
    _one("b", 5, 9),
    _two("a", 6, 10),
    _one("a", 7, 9),
    _one("a", 8, 31),
    _two("a", 9, 12),
    _two("b", 10, 20),
    _one("b", 11, 8),
    _one("a", 12, 20),
    _two("a", 13, 41),
    _two("b", 14, 12),
    _one("b", 15, 30),
]
# Only the second input's stream time passes what the first one still takes.
EACH_ITS_TIME = [
    _one("a", 1, 0),
    _two("a", 2, 100),
    _one("a", 3, 1),
    _two("a", 4, 2),
    _one("a", 5, 200),
    _one("a", 6, 3),
    _two("a", 7, 99),
    _two("a", 8, 150),
]
# The first input still writes windows that the second one has made expire.
BEHIND = [
    _two("b", 1, 300),
    _one("a", 2, 270),
    _one("a", 3, 271),
    _two("a", 4, 301),
    _one("a", 5, 262),
    _one("a", 6, 263),
    _one("a", 7, 290),
]
# By what the second input has written, whole segments are gone that the first one writes.
EXPIRED = [
    _two("b", 1, 500_000),
    _one("a", 2, 100),
    _one("a", 3, 104),
    _one("a", 4, 111),
    _one("b", 5, 200_000),
    _one("a", 6, 419_990),
    _one("a", 7, 420_001),
    _one("a", 8, 479_999),
    _two("a", 9, 500_001),
    _one("a", 10, 499_990),
    _one("a", 11, 105),
]
ONE_SOURCE: list[Step] = [
    {"op": "stream", "as": "one", "topics": ["one"]},
    {"op": "filter", "on": "one", "as": "large", "fn": "amount>10"},
    {"op": "group_by_key", "on": "one", "as": "by one"},
    {"op": "group_by_key", "on": "large", "as": "by two"},
]
RE_KEYED: list[Step] = [
    {"op": "stream", "as": "one", "topics": ["one"]},
    {"op": "group_by", "on": "one", "as": "by one", "fn": "amount mod 3", "name": "first"},
    {"op": "stream", "as": "two", "topics": ["two"]},
    {"op": "group_by", "on": "two", "as": "by two", "fn": "user"},
]


def _unlogged(scenario: Scenario) -> Scenario:
    """Kafka Streams logs what a store drops because it has expired; here it does not."""
    steps = [step | ({"logged": False} if step.get("store") == "both" else {}) for step in scenario["topology"]]
    return {**scenario, "topology": steps}


def _joined(join: Step, records: list[Record]) -> Scenario:
    scenario = _cogroup(records, "sum", "sum", "max")
    steps = scenario["topology"][:-2]
    steps += [{"op": "table", "as": "table", "topic": "table", "store": "rows"}, join]
    steps += [{"op": "to_stream", "on": "j", "as": "js"}, {"op": "to", "on": "js", "topic": "joined"}]
    return {**scenario, "topology": steps}


def _table(key: str, amount: int | None, timestamp: int) -> Record:
    return _record("table", key, amount, timestamp)


COGROUP_SCENARIOS: dict[str, Scenario] = {
    "a cogroup takes the records of its inputs in order": _cogroup(MIXED, "texts", "texts", "notes"),
    "a cogroup with other adders": _cogroup(MIXED, "sum", "sum", "max"),
    "a cogroup whose aggregate goes": _cogroup(MIXED, "sum", "sum, gone at multiples of 5", "sum"),
    "a cogroup that starts from nothing": _cogroup(MIXED, "max", "first", "last"),
    "a cogroup of one input": _cogroup(MIXED, "texts", "texts", inputs=("by one",)),
    "a cogroup whose input is given twice": _cogroup(
        MIXED, "texts", "texts", "notes", "notes", inputs=("by one", "by two", "by one")
    ),
    "a cogroup of three inputs": _cogroup(
        [*MIXED, _record("three", "a", 1, 0), *MIXED[:5], _record("three", "b", 2, 60)],
        "texts",
        "texts",
        "notes",
        "texts",
        groups=_grouped("one", "two", "three"),
        inputs=("by one", "by two", "by three"),
    ),
    "a cogroup of re-keyed inputs": _cogroup(
        MIXED, "texts", "texts", "notes", groups=RE_KEYED, settings=("compare repartition topics",)
    ),
    "a cogroup goes on behind a failing adder": _cogroup(
        MIXED, "sum", "sum", "sum, fails on 13", settings=("continue after processing errors", "dead letters")
    ),
    "one record goes to both inputs of a cogroup": _cogroup(
        [_one("a", 11, 0), _one("b", 5, 1), _one("a", 12, 2), _one("a", 13, 2)],
        "texts",
        "texts",
        "notes",
        groups=ONE_SOURCE,
    ),
    "a cogrouped table is filtered": {
        **_cogroup(MIXED, "max", "max", "last"),
        "topology": [
            *_cogroup(MIXED, "max", "max", "last")["topology"][:-2],
            {"op": "table_filter", "on": "t", "as": "f", "fn": "amount even"},
            {"op": "to_stream", "on": "f", "as": "s"},
            {"op": "to", "on": "s", "topic": "out"},
        ],
    },
    "a cogrouped table is grouped": {
        **_cogroup(MIXED, "max", "max", "last"),
        "topology": [
            *_cogroup(MIXED, "max", "max", "last")["topology"][:-2],
            {"op": "table_group_by", "on": "t", "as": "g", "fn": "amount mod 3, value"},
            {"op": "table_aggregate", "on": "g", "as": "k", "fn": "texts", "store": "regrouped"},
            {"op": "to_stream", "on": "k", "as": "s"},
            {"op": "to", "on": "s", "topic": "out"},
        ],
    },
    "a cogrouped table is joined with a table": _joined(
        {"op": "table_left_join", "on": "t", "with": "table", "as": "j", "fn": "left|right"},
        [_table("a", 1, 0), *MIXED[:8], _table("a", 2, 9), _table("b", 3, 9), *MIXED[8:], _table("b", None, 50)],
    ),
    "a stream is joined with a cogrouped table": {
        **_cogroup(MIXED, "sum", "sum", "max"),
        "topology": [
            *_cogroup(MIXED, "sum", "sum", "max")["topology"],
            {"op": "stream", "as": "clicks", "topics": ["clicks"]},
            {"op": "left_join", "on": "clicks", "table": "t", "as": "j", "fn": "left|right"},
            {"op": "to", "on": "j", "topic": "joined"},
        ],
        "input": [row for record in MIXED for row in (record, _record("clicks", record[1], 1, record[3]))],
    },
    "the stream of an input is joined with its cogrouped table": {
        **_cogroup(MIXED, "sum", "sum", "max"),
        "topology": [
            *_cogroup(MIXED, "sum", "sum", "max")["topology"],
            {"op": "left_join", "on": "one", "table": "t", "as": "j", "fn": "left|right"},
            {"op": "to", "on": "j", "topic": "joined"},
        ],
    },
    **{
        f"a cogroup over {name}": _cogroup(MIXED, "texts", "texts", "notes", windows=windows)
        for name, windows in WINDOWS.items()
    },
    **{
        f"each input of a cogroup over {name} has its own time": _cogroup(
            EACH_ITS_TIME, "texts", "texts", "notes", windows=windows
        )
        for name, windows in WINDOWS.items()
    },
    **{
        f"an input of a cogroup over {name} lags behind": _cogroup(BEHIND, "texts", "texts", "notes", windows=windows)
        for name, windows in WINDOWS.items()
    },
    **{
        f"an input of a cogroup over {name} writes what has expired": _unlogged(
            _cogroup(EXPIRED, "texts", "texts", "notes", windows=windows)
        )
        for name, windows in WINDOWS.items()
    },
    **{
        f"one record goes to both inputs of a cogroup over {name}": _cogroup(
            [_one("a", amount, time) for amount, time in ((1, 0), (11, 3), (12, 3), (13, 30), (14, 2), (15, 31))],
            "texts",
            "texts",
            "notes",
            windows=windows,
            groups=ONE_SOURCE,
        )
        for name, windows in WINDOWS.items()
    },
}
