"""Hand-written scenarios of processors, their stores and punctuations, and of topologies put together by hand."""

from __future__ import annotations

from typing import Any

from tests.parity.scenario import Scenario
from tests.parity.table_scenarios import gone, op, row

Step = dict[str, Any]
Record = list[Any]

TOTALS = op("state_store", state="totals", kind="key-value")
UNEVEN = [
    row("in", "a", 5, 3),
    row("in", "b", 2, 9),
    row("in", "a", 1, 10),
    row("in", "a", 7, 8),
    row("in", "b", 4, 31),
    row("in", "b", 1, 31),
    row("in", "c", 6, 30),
    row("in", "a", 8, 62),
    row("in", "a", 13, 63),
    row("in", "b", 3, 100),
]


def wait(milliseconds: int) -> Record:
    """The wall clock moves ahead."""
    return ["wall clock", None, None, milliseconds]


def _scenario(*steps: Step, records: list[Record], settings: tuple[str, ...] = ()) -> Scenario:
    return {"topology": list(steps), "input": records, "settings": list(settings)}


def _processed(fn: str, *stores: Step, records: list[Record], settings: tuple[str, ...] = ()) -> Scenario:
    return _scenario(
        *stores,
        op("stream", None, "s", topics=["in"]),
        op("process", "s", "p", fn=fn, stores=[store["state"] for store in stores]),
        op("to", "p", topic="out"),
        records=records,
        settings=settings,
    )


def _by_hand(*steps: Step, records: list[Record], settings: tuple[str, ...] = ()) -> Scenario:
    return _scenario(op("add_source", name="source", topics=["in"]), *steps, records=records, settings=settings)


LATEST = op("state_store", state="latest", kind="timestamped")
SEEN = op("state_store", state="seen", kind="window", retention=60_000, size=20)
WINDOWS = op("state_store", state="windows", kind="window", retention=120_000, size=10)
SESSIONS = op("state_store", state="sessions", kind="session", retention=120_000)
CONTINUE = ("continue after processing errors",)

DUPLICATES = [
    row("in", "a", 1, 100),
    row("in", "a", 2, 120),
    row("in", "a", 3, 121),
    row("in", "a", 4, 80),
    row("in", "a", 5, 79),
    row("in", "b", 6, 100),
    row("in", "a", 7, 200_000),
    gone("in", "a", 200_100),
    row("in", "a", 8, 200_100),
]
STAMPED_WINDOWS = {**WINDOWS, "state": "stamped", "kind": "timestamped window"}
SCANNED = [
    row("in", key, amount, at)
    for at, (key, amount) in enumerate(
        [("b", 1), ("a", 2), ("ab", 3), ("c", 4), ("ab", 7), ("b", 7), ("a", 5), ("aab", 6), ("", 1)], 1
    )
]
WINDOWED = [
    *UNEVEN,
    row("in", "aa", 2, 12),
    row("in", "a", 3, 12),
    row("in", "a", 4, 70_000),
    row("in", "aa", 4, 130_000),
    row("in", "a", 5, 60_100),
    row("in", "a", 6, 200_000),
]
HISTORY = op("state_store", state="history", kind="versioned", retention=30, segment_interval=10)
VERSIONS = [
    *UNEVEN,
    row("in", "a", 3, 90),
    row("in", "a", 7, 95),
    gone("in", "b", 99),
    row("in", "a", 5, 66),
    row("in", "a", 9, 110),
    row("in", "b", 2, 98),
    row("in", "a", 11, 20),
    row("in", "d", 7, 111),
    row("in", "a", 1, 5_000),
    row("in", "b", 1, 4_980),
    row("in", "b", 1, 4_960),
]
SESSION_RECORDS = [*UNEVEN, row("in", "a", 5, 13), row("in", "b", 5, 200_000)]


def _unlogged(store: Step) -> Step:
    """Kafka Streams logs what a store drops because it has expired, or with the wall clock's time; here it does not."""
    return {**store, "logged": False}


PROCESSOR_SCENARIOS: dict[str, Scenario] = {
    "process: duplicates within a window are dropped": _processed("deduplicate", SEEN, records=DUPLICATES),
    "process: a window that has expired": _processed(
        "deduplicate", _unlogged(SEEN), records=[*DUPLICATES, row("in", "a", 8, 100), row("in", "a", 8, 100)]
    ),
    "process: two stores, one timestamped": _processed(
        "total and latest", TOTALS, LATEST, records=[*UNEVEN, gone("in", "a", 101), row("in", "b", 5, 90)]
    ),
    "process: a punctuation by stream time sees what a walk sees": _processed(
        "emit by stream time", TOTALS, records=UNEVEN
    ),
    "process: punctuations that are due together": _processed("two punctuations", records=UNEVEN),
    "process: punctuations are scheduled and cancelled among records": _processed(
        "schedule in process", records=[*UNEVEN, row("in", "a", 7, 101), row("in", "b", 1, 117), row("in", "b", 2, 500)]
    ),
    "process: a punctuation by the wall clock": _processed(
        "emit by wall clock",
        _unlogged(TOTALS),
        records=[
            wait(99),
            wait(1),
            row("in", "a", 1, 5),
            wait(250),
            wait(49),
            wait(1),
            row("in", "b", 1, 7),
            wait(999),
        ],
    ),
    "process: punctuations with a start": _processed(
        "start times", records=[wait(70), *UNEVEN, wait(179), wait(1), wait(500)]
    ),
    "process: headers and timestamps": _processed(
        "header", records=[*UNEVEN, row("in", None, 1, 1)], settings=("compare headers",)
    ),
    "process: where a record came from": _processed("metadata", records=UNEVEN),
    "process: a failing record leaves what it did": _processed(
        "fails on 13", TOTALS, records=[*UNEVEN, row("in", "z", 13, 5)], settings=CONTINUE
    ),
    "process: a failing record is a dead letter": _processed(
        "fails first", records=[*UNEVEN, row("in", "z", 13, 5)], settings=(*CONTINUE, "dead letters")
    ),
    "process: a failing punctuation": _scenario(
        TOTALS,
        op("stream", None, "s", topics=["in"]),
        op("process", "s", "p", fn="punctuation fails", stores=["totals"]),
        op("filter", "p", "f", fn="fails on 13"),
        op("to", "f", topic="out"),
        records=[row("in", "a", at, at) for at in (1, 11, 25, 31, 45, 61, 62, 75)],
        settings=CONTINUE,
    ),
    "process: ranges, prefixes and deletions": _processed(
        "scan",
        TOTALS,
        records=SCANNED,
    ),
    "process: windows": _processed("windows", WINDOWS, records=WINDOWED),
    "process: windows, some expired": _processed(
        "windows", _unlogged(WINDOWS), records=[*WINDOWED, row("in", "a", 5, 100), row("in", "a", 6, 200)]
    ),
    "process: sessions": _processed("sessions", SESSIONS, records=SESSION_RECORDS),
    "process: sessions in memory": _processed(
        "sessions", {**SESSIONS, "place": "memory"}, records=[*SESSION_RECORDS, row("in", "a", 1, 190_000)]
    ),
    "process: a timestamped store is scanned": _processed("stamped scan", LATEST, records=SCANNED),
    "process: a timestamped store in memory is scanned": _processed(
        "stamped scan", {**LATEST, "place": "memory"}, records=SCANNED
    ),
    "process: a store in memory is scanned": _processed("scan", {**TOTALS, "place": "memory"}, records=SCANNED),
    "process: two maps of few keys": _processed(
        "total and latest",
        {**TOTALS, "place": "lru 2"},
        # In the changelog of a timestamped map Kafka Streams leaves what was pushed out.
        _unlogged({**LATEST, "place": "lru 1"}),
        records=[*UNEVEN, gone("in", "a", 101), row("in", "b", 5, 90)],
    ),
    "process: windows in memory": _processed("deduplicate", {**SEEN, "place": "memory"}, records=DUPLICATES),
    "process: timestamped windows": _processed("stamped windows", STAMPED_WINDOWS, records=WINDOWED),
    "process: a versioned store": _processed("history", HISTORY, records=VERSIONS),
    "process: a versioned store without a changelog": _processed("history", _unlogged(HISTORY), records=VERSIONS),
    "process: a versioned store with segments of its own": _processed(
        "history", op("state_store", state="history", kind="versioned", retention=120_000), records=VERSIONS
    ),
    "process: a versioned store without history": _processed(
        "history", op("state_store", state="history", kind="versioned", retention=0), records=VERSIONS
    ),
    "process: reads the store of a versioned table": _scenario(
        op("table", None, "t", topic="table", store="table-store", history=30),
        op("stream", None, "s", topics=["in"]),
        op("process", "s", "p", fn="look up version", stores=["table-store"]),
        op("to", "p", topic="out"),
        records=[
            row("in", "a", 1, 1),
            row("table", "a", 5, 20),
            row("table", "a", 6, 10),
            row("in", "a", 1, 15),
            row("in", "a", 1, 25),
            gone("table", "a", 30),
            row("in", "a", 1, 29),
            row("in", "a", 1, 31),
        ],
    ),
    "process: sessions, some expired": _processed(
        "sessions", _unlogged(SESSIONS), records=[*SESSION_RECORDS, row("in", "a", 1, 60)]
    ),
    "process: the key may change behind it": _scenario(
        op("stream", None, "s", topics=["in"]),
        op("process", "s", "p", fn="pass"),
        op("group_by_key", "p", "g"),
        op("count", "g", "c", store="counts"),
        op("to_stream", "c", "t"),
        op("to", "t", topic="out"),
        records=UNEVEN,
        settings=("compare repartition topics",),
    ),
    "process: behind other operators, to two ends": _scenario(
        TOTALS,
        op("stream", None, "s", topics=["in"]),
        op("flat_map", "s", "f", fn="amount mod 3 keys"),
        op("process", "f", "p", fn="emit by stream time", stores=["totals"]),
        op("filter", "p", "even", fn="amount even"),
        op("map_values", "p", "plus", fn="amount+1"),
        op("merge", "even", "m", **{"with": "plus"}),
        op("merge", "m", "n", **{"with": "f"}),
        op("to", "n", topic="out"),
        records=UNEVEN,
    ),
    "process: one punctuating processor behind another": _scenario(
        TOTALS,
        op("stream", None, "s", topics=["in"]),
        op("process", "s", "p", fn="two punctuations"),
        op("process", "p", "q", fn="emit by stream time", stores=["totals"]),
        op("process", "q", "r", fn="schedule in process"),
        op("merge", "r", "m", **{"with": "p"}),
        op("to", "m", topic="out"),
        records=UNEVEN,
    ),
    "process: reads the store of a table": _scenario(
        op("table", None, "t", topic="table", store="table-store"),
        op("stream", None, "s", topics=["in"]),
        op("process", "s", "p", fn="look up", stores=["table-store"]),
        op("to", "p", topic="out"),
        records=[
            row("in", "a", 1, 1),
            row("table", "a", 5, 2),
            row("in", "a", 1, 3),
            row("table", "a", 6, 1),
            row("in", "a", 1, 3),
            gone("table", "a", 4),
            row("in", "a", 1, 5),
            row("table", "b", 5, 6),
            row("table", "b", 6, 7),
            row("in", "b", 1, 8),
            row("in", "b", 1, 8),
        ],
    ),
    "process: reads the store of an aggregation in front of it": _scenario(
        op("stream", None, "s", topics=["in"]),
        op("group_by_key", "s", "g"),
        op("aggregate", "g", "c", store="table-store", fn="sum"),
        op("to_stream", "c", "t"),
        op("process", "t", "p", fn="look up", stores=["table-store"]),
        op("to", "p", topic="out"),
        op("process", "s", "q", fn="look up", stores=["table-store"]),
        op("to", "q", topic="before"),
        records=[*UNEVEN, row("in", None, 1, 1)],
    ),
    "process_values: the key stays": _scenario(
        TOTALS,
        op("stream", None, "s", topics=["in"]),
        op("process_values", "s", "p", fn="running total", stores=["totals"]),
        op("group_by_key", "p", "g"),
        op("aggregate", "g", "c", store="sums", fn="sum"),
        op("to_stream", "c", "t"),
        op("to", "t", topic="out"),
        records=UNEVEN,
    ),
    "transform_values with a store": _scenario(
        TOTALS,
        op("table", None, "t", topic="table", store="table-store"),
        op("stateful_transform_values", "t", "v", stores=["totals"]),
        op("to_stream", "v", "w"),
        op("to", "w", topic="out"),
        records=[row("table", "a", 1, 1), row("table", "b", 2, 5), row("table", "a", 3, 2), gone("table", "a", 9)],
    ),
    "transform_values with a store, stored, and old values below": _scenario(
        TOTALS,
        op("table", None, "t", topic="table"),
        op("stateful_transform_values", "t", "v", stores=["totals"], store="transformed"),
        op("table_group_by", "v", "g", fn="amount mod 3, value"),
        op("table_aggregate", "g", "c", store="sums", fn="sum"),
        op("to_stream", "c", "w"),
        op("to", "w", topic="out"),
        records=[row("table", "a", 1, 1), row("table", "b", 2, 5), row("table", "a", 3, 2), gone("table", "a", 9)],
    ),
    "transform_values with a store, and old values below": _scenario(
        TOTALS,
        op("table", None, "t", topic="table"),
        op("stateful_transform_values", "t", "v", stores=["totals"]),
        op("table_group_by", "v", "g", fn="amount mod 3, value"),
        op("table_aggregate", "g", "c", store="sums", fn="sum"),
        op("to_stream", "c", "w"),
        op("to", "w", topic="out"),
        records=[row("table", "a", 1, 1), row("table", "b", 2, 5), row("table", "a", 3, 2), gone("table", "a", 9)],
    ),
    "by hand: to named children": _by_hand(
        op("add_processor", name="choose", fn="to children", parents=["source"]),
        op("add_processor", name="even", fn="pass", parents=["choose"]),
        op("add_sink", name="odd", topic="odd", parents=["choose"]),
        op("add_sink", name="even-sink", topic="out", parents=["even"]),
        op("add_sink", name="again", topic="odd", parents=["even", "source"]),
        records=[*UNEVEN, row("in", "a", 10, 101), row("in", "a", 20, 102)],
        settings=CONTINUE,
    ),
    "by hand: to all children and to one, and together again": _by_hand(
        op("add_processor", name="choose", fn="to both and one", parents=["source"]),
        op("add_processor", name="odd", fn="header", parents=["choose"]),
        op("add_processor", name="even", fn="pass", parents=["choose"]),
        op("add_processor", name="last", fn="pass", parents=["odd", "even"]),
        op("add_sink", name="sink", topic="out", parents=["last", "choose"]),
        records=UNEVEN,
        settings=("compare headers",),
    ),
    "by hand: processors that share a store": _by_hand(
        op("add_processor", name="write", fn="write shared", parents=["source"]),
        op("add_processor", name="read", fn="read shared", parents=["write"]),
        op("state_store", state="shared", kind="key-value", processors=["write"]),
        op("connect", name="read", stores=["shared"]),
        op("add_sink", name="sink", topic="out", parents=["read"]),
        op("add_sink", name="also", topic="also", parents=["write"]),
        records=UNEVEN,
    ),
    "by hand: sources that share a store": _by_hand(
        op("add_source", name="other", topics=["more"]),
        op("add_processor", name="write", fn="emit by stream time", parents=["source"]),
        op("add_processor", name="wall", fn="emit by wall clock", parents=["other"]),
        op("state_store", state="totals", kind="key-value", processors=["write", "wall"], logged=False),
        op("add_processor", name="punctuate", fn="two punctuations", parents=["wall"]),
        op("add_sink", name="sink", topic="out", parents=["write", "wall", "punctuate"]),
        records=[
            *UNEVEN[:3],
            row("more", "a", 50, 11),
            row("more", "b", 51, 90),
            wait(100),
            *UNEVEN[3:6],
            wait(400),
            row("more", "c", 51, 150),
        ],
    ),
    "by hand: a failure below a processor that forwards": _by_hand(
        op("add_processor", name="write", fn="write shared", parents=["source"]),
        op("add_processor", name="fail", fn="fails on 13", parents=["write", "source"]),
        op("state_store", state="shared", kind="key-value", processors=["write", "fail"]),
        op("state_store", state="totals", kind="key-value", processors=["fail"]),
        op("add_sink", name="sink", topic="out", parents=["fail"]),
        records=UNEVEN,
        settings=CONTINUE,
    ),
}
