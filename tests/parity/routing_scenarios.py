"""Hand-written scenarios of sinks that choose the topic of each record (KIP-303)."""

from __future__ import annotations

from typing import Any

from tests.parity.scenario import Scenario
from tests.parity.table_scenarios import gone, op, row

Step = dict[str, Any]

MIXED = [
    row("in", "a", 1, 10),
    row("in", "b", 2, 11),
    row("in", "a", 4, 5),
    gone("in", "b", 12),
    row("in", None, 5, 13),
    row("in", "a", None, 14),
    ["in", "c", '{"user": "u", "amount": 8}', 15, {"trace": "1"}],
    row("in", "b", 3, 30),
    row("in", "a", 2, 31),
]


def _scenario(*steps: Step, settings: tuple[str, ...] = ()) -> Scenario:
    return {"topology": [op("stream", None, "s", topics=["in"]), *steps], "input": MIXED, "settings": list(settings)}


ROUTING_SCENARIOS: dict[str, Scenario] = {
    "records go to the topic of their key": _scenario(op("to", "s", by="key")),
    "records go to the topic of their amount": _scenario(op("to", "s", by="even or odd")),
    "the extractor is told where the record comes from": _scenario(
        op("map_values", "s", "v", fn="amount"), op("to", "v", by="context"), settings=("compare headers",)
    ),
    "a chosen topic is that of another sink": _scenario(
        op("flat_map_values", "s", "f", fn="amount mod 3 times"),
        op("to", "f", by="even or odd"),
        op("map_values", "s", "v", fn="amount"),
        op("to", "v", topic="even"),
        op("to", "f", topic="odd"),
    ),
    "two sinks choose the same topics": _scenario(
        op("to", "s", by="even or odd"),
        op("map_values", "s", "v", fn="amount"),
        op("to", "v", by="even or odd"),
    ),
    "a chosen topic is read by another part of the topology": _scenario(
        op("to", "s", by="even or odd"),
        op("stream", None, "e", topics=["even"]),
        op("group_by_key", "e", "g"),
        op("count", "g", "t", store="counts"),
        op("to_stream", "t", "r"),
        op("to", "r", topic="out"),
    ),
    "results of windows go to the topic of their window": _scenario(
        op("group_by_key", "s", "g"),
        op("windowed_by", "g", "w", size=10, grace=5),
        op("count", "w", "t", store="counts"),
        op("to_stream", "t", "r"),
        op("to", "r", by="window start"),
    ),
    "what a punctuation forwards comes from no record": _scenario(
        op("process", "s", "p", fn="metadata", stores=[]), op("to", "p", by="context")
    ),
    "a sink that was added by hand chooses topics": {
        "topology": [
            op("add_source", name="source", topics=["in"]),
            op("add_processor", name="headers", fn="header", parents=["source"]),
            op("add_sink", name="by-key", by="key", parents=["headers", "source"]),
        ],
        "input": MIXED,
        "settings": ["compare headers"],
    },
}
