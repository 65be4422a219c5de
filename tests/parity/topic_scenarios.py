"""Hand-written scenarios of topics: by a pattern (KIP-105), several partitions (KIP-837), that of a store (KIP-813)."""

from __future__ import annotations

from typing import Any

from tests.parity.scenario import Scenario
from tests.parity.table_scenarios import gone, op, row

Step = dict[str, Any]

MIXED = [
    row("in", "a", 1, 10),
    row("in", "b", 2, 11),
    row("in", "c", 3, 12),
    row("in", "d", 4, 5),
    row("in", None, 5, 13),
    gone("in", "a", 14),
    gone("in", "b", 15),
    ["in", "a", '{"user": "u", "amount": 8}', 16, {"trace": "1"}],
    row("in", "c", None, 30),
]
SENSORS = [
    row("sensor-eu", "a", 1, 10),
    row("sensor-us", "a", 2, 8),
    row("sensor-eu", "b", 3, 11),
    gone("sensor-us", "b", 12),
    row("other", "a", 9, 12),
    row("sensor-ap", "a", 4, 30),
    row("sensor-eu", None, 5, 31),
]
RATES = [
    row("in", "a", 1, 5),
    row("rates", "a", 10, 6),
    row("in", "a", 2, 7),
    row("rates", "a", 11, 1),
    row("rates", "b", 12, 9),
    row("in", "b", 3, 10),
    row("in", "a", 4, 2),
]


def _written(*steps: Step, records: list[Any] = MIXED, settings: tuple[str, ...] = ()) -> Scenario:
    return {"topology": [op("stream", None, "s", topics=["in"]), *steps], "input": records, "settings": list(settings)}


TOPIC_SCENARIOS: dict[str, Scenario] = {
    "a record is written to all partitions, to none, to one, or by its hash": _written(
        op("to", "s", topic="out", partitioner=True), settings=("compare headers",)
    ),
    "two sinks of a topic choose its partitions": _written(
        op("to", "s", topic="out", partitioner=True),
        op("map_values", "s", "v", fn="amount"),
        op("to", "v", topic="out"),
        op("to", "v", topic="out", partitioner=True),
    ),
    "a repartition topic has a record several times": _written(
        op("repartition", "s", "r", name="again", partitioner=True),
        op("group_by_key", "r", "g"),
        op("count", "g", "t", store="counts"),
        op("to_stream", "t", "c"),
        op("to", "c", topic="out", partitioner=True),
        settings=("compare repartition topics",),
    ),
    "a sink that was added by hand chooses partitions": {
        "topology": [
            op("add_source", name="source", topics=["in"]),
            op("add_processor", name="header", fn="header", parents=["source"]),
            op("add_sink", name="sink", topic="out", parents=["header", "source"], partitioner=True),
        ],
        "input": MIXED,
        "settings": ["compare headers"],
    },
    "a stream reads the topics that match a pattern": {
        "topology": [
            op("stream", None, "s", pattern="sensor-.*"),
            op("to", "s", topic="copies"),
            op("group_by_key", "s", "g"),
            op("count", "g", "t", store="counts"),
            op("to_stream", "t", "c"),
            op("to", "c", topic="out"),
            op("stream", None, "o", topics=["other"]),
            op("left_join", "o", "j", table="t", fn="left|right"),
            op("to", "j", topic="joined"),
        ],
        "input": SENSORS,
    },
    "a source that was added by hand reads what matches a pattern": {
        "topology": [
            op("add_source", name="source", pattern="sensor-[a-z]{2}"),
            op("add_source", name="other", topics=["other"]),
            op("add_processor", name="pass", fn="pass", parents=["source", "other"]),
            op("add_sink", name="sink", topic="out", parents=["pass"]),
        ],
        "input": SENSORS,
    },
    "a read-only store is filled by its topic": {
        "topology": [
            op("add_source", name="source", topics=["in"]),
            op("add_processor", name="reader", fn="read shared", parents=["source"]),
            op(
                "read_only_store",
                state="shared",
                kind="key-value",
                source="rates-source",
                topic="rates",
                name="keeper",
                fn="write shared",
            ),
            op("connect", name="reader", stores=["shared"]),
            op("add_sink", name="sink", topic="out", parents=["reader"]),
        ],
        "input": RATES,
    },
}
