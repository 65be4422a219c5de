"""Hand-written scenarios of aggregations that send their results when windows close."""

from __future__ import annotations

from tests.parity.scenario import Scenario
from tests.parity.suppress_scenarios import BOUNDARIES, SESSIONS
from tests.parity.table_scenarios import Record, Step, op, row

LONG = 10_000
"""Retention that no jump of these records exceeds: Kafka Streams loses windows otherwise."""


def _scenario(
    windows: dict[str, int],
    *steps: Step,
    records: list[Record],
    fn: str = "",
    aggregate: str = "count",
    retention: int = LONG,
    settings: tuple[str, ...] = ("compare headers",),
) -> Scenario:
    return {
        "topology": [
            op("stream", as_="s", topics=["in"]),
            op("group_by_key", "s", "grouped"),
            op("windowed_by", "grouped", "windows", emit="close", **windows),
            op(aggregate, "windows", "t", store="store", fn=fn, retention=retention),
            *steps,
            op("to_stream", "t", "results"),
            op("to", "results", topic="out"),
        ],
        "input": [[*record, {"at": str(record[3])}] for record in records],
        "settings": list(settings),
    }


AROUND = [
    *BOUNDARIES,
    row("in", "c", 1, 200),
    row("in", "b", 1, 209),
    row("in", "a", 1, 211),
    row("in", "z", 1, 221),
    row("in", "y", 1, 221),
    row("in", "c", 5, 213),
    row("in", "c", 5, 212),
    row("in", "c", 5, 236),
    row("in", "c", 5, 237),
    row("in", "c", 5, 300),
]
EARLY = [
    row("in", "a", 1, 3),
    row("in", "b", 1, 8),
    row("in", "a", 1, 0),
    row("in", "a", 2, 15),
    row("in", "b", 2, 22),
    row("in", "a", 2, 2),
    row("in", "a", 2, 40),
    row("in", "a", 3, 5),
    row("in", "c", 3, 90),
]

EMIT_SCENARIOS: dict[str, Scenario] = {
    **{
        f"{name} on close with grace {grace}": _scenario({**windows, "grace": grace}, records=records)
        for grace in (0, 5, 30)
        for name, windows, records in (
            ("tumbling windows", {"size": 10}, AROUND),
            ("hopping windows", {"size": 10, "advance": 4}, AROUND),
            ("windows that overlap much", {"size": 20, "advance": 1}, AROUND),
            ("sliding windows", {"difference": 10}, AROUND),
            ("sliding windows of early records", {"difference": 10}, EARLY),
            ("sessions", {"gap": 10}, SESSIONS),
            ("sessions without a gap", {"gap": 0}, AROUND),
        )
    },
    **{
        f"{aggregate} {fn} of {name} on close": _scenario(
            {**windows, "grace": 5}, records=AROUND, aggregate=aggregate, fn=fn
        )
        for aggregate, fn in (
            ("reduce", "sum"),
            ("reduce", "sum, gone at multiples of 5"),
            ("aggregate", "max"),
            ("aggregate", "texts"),
            ("aggregate", "sum, gone at multiples of 5"),
        )
        for name, windows in (
            ("hopping windows", {"size": 10, "advance": 5}),
            ("sliding windows", {"difference": 10}),
            ("sessions", {"gap": 10}),
        )
    },
    "a session that was sent goes on": _scenario(
        {"gap": 10, "grace": 0},
        records=[row("in", "k", 1, 0), row("in", "j", 1, 15), row("in", "k", 1, 9), row("in", "j", 1, 40)],
    ),
    "on close, filtered and mapped": _scenario(
        {"size": 10, "grace": 5},
        op("table_filter", "t", "f", fn="amount even"),
        op("table_map_values", "f", "m", fn="amount+1"),
        op("to_stream", "m", "mapped"),
        op("to", "mapped", topic="more"),
        aggregate="aggregate",
        fn="sum",
        records=AROUND,
    ),
    "on close, then suppressed": _scenario(
        {"size": 10, "grace": 5},
        op("suppress", "t", "u", name="held"),
        op("to_stream", "u", "held"),
        op("to", "held", topic="more"),
        records=AROUND,
    ),
}
