"""Random scenarios with processors, their stores and punctuations: the same seed gives the same scenario.

They make one sub-topology: Kafka Streams' test driver has one task, and so one stream time, for all of them.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.parity.scenario import Scenario

STORES: dict[str, dict[str, Any]] = {
    "totals": {"kind": "key-value"},
    "latest": {"kind": "timestamped"},
    "shared": {"kind": "key-value"},
    "seen": {"kind": "window", "retention": 60_000, "size": 20, "logged": False},
    "windows": {"kind": "window", "retention": 120_000, "size": 10, "logged": False},
    "sessions": {"kind": "session", "retention": 120_000, "logged": False},
    "stamped": {"kind": "timestamped window", "retention": 120_000, "size": 10, "logged": False},
    "history": {"kind": "versioned", "retention": 60, "segment_interval": 20},
}
STORES_OF: dict[str, list[str]] = {
    "pass": [],
    "header": [],
    "metadata": [],
    "two punctuations": [],
    "schedule in process": [],
    "start times": [],
    "total and latest": ["totals", "latest"],
    "emit by stream time": ["totals"],
    "emit by wall clock": ["totals"],
    "fails on 13": ["totals"],
    "punctuation fails": ["totals"],
    "scan": ["totals"],
    "write shared": ["shared"],
    "read shared": ["shared"],
    "deduplicate": ["seen"],
    "windows": ["windows"],
    "sessions": ["sessions"],
    "stamped scan": ["latest"],
    "stamped windows": ["stamped"],
    "history": ["history"],
    "look up": ["table-store"],
}
_PREDICATES = ("amount>10", "amount even", "has amount", "key==a", "always", "fails on 13")


def generate_processing(seed: int) -> Scenario:
    """The scenario of a seed."""
    return _Generator(Random(seed)).scenario()


class _Generator:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._steps: list[dict[str, Any]] = []
        self._used: dict[str, None] = {}
        self._processors: list[str] = []
        self._has_table = False
        self._count = 0

    def scenario(self) -> Scenario:
        random = self._random
        topics = ["in"]
        streams = [self._add("stream", topics=["in"])]
        if random.random() < 0.4:
            self._has_table = True
            topics.append("table")
            self._steps.append({"op": "table", "as": "table", "topic": "table", "store": "table-store"})
            streams.append(self._add("to_stream", on="table"))
            # It connects the two inputs.
            streams.append(self._add("process", on=streams[0], fn="look up", stores=["table-store"]))
        for _ in range(random.randint(1, 5)):
            streams += self._operator(random.choice(streams), streams)
        for number, end in enumerate(random.sample(streams, k=min(len(streams), random.randint(1, 3)))):
            self._steps.append({"op": "to", "on": end, "topic": f"out{number % 2}"})
        stores = [
            {"op": "state_store", "state": name, **STORES[name], **self._logging(name)}
            for name in self._used
            if name in STORES
        ]
        settings = ["continue after processing errors", "compare headers"]
        return {"topology": [*stores, *self._steps], "input": self._input(topics), "settings": settings}

    def _logging(self, store: str) -> dict[str, Any]:
        """What a punctuation writes by the wall clock has its time in the changelog, which is another one each time."""
        return {"logged": False} if store == "totals" and "emit by wall clock" in self._processors else {}

    def _add(self, op: str, **options: Any) -> str:
        self._count += 1
        name = f"s{self._count}"
        self._steps.append({"op": op, "as": name, **options})
        return name

    def _operator(self, on: str, streams: list[str]) -> list[str]:
        random = self._random
        match random.choice(["process", "process", "process", "filter", "values", "flat", "merge", "join", "fixed"]):
            case "filter":
                return [self._add(random.choice(["filter", "filter_not"]), on=on, fn=random.choice(_PREDICATES))]
            case "values":
                return [self._add("map_values", on=on, fn=random.choice(["amount", "amount+1", "null if odd"]))]
            case "flat":
                return [self._add("flat_map_values", on=on, fn="amount mod 3 times")]
            case "merge":
                return [self._add("merge", on=on, **{"with": other})] if (other := random.choice(streams)) != on else []
            case "fixed":
                self._used["totals"] = None
                return [self._add("process_values", on=on, fn="running total", stores=["totals"])]
            case _:
                fn = random.choice([fn for fn in STORES_OF if fn != "look up" or self._has_table])
                self._used.update(dict.fromkeys(STORES_OF[fn]))
                self._processors.append(fn)
                return [self._add("process", on=on, fn=fn, stores=STORES_OF[fn])]

    def _input(self, topics: list[str]) -> list[list[Any]]:
        random = self._random
        records: list[list[Any]] = []
        now = random.choice([0, 0, 7, 1_700_000_000_000])
        for _ in range(random.randint(3, 30)):
            if random.random() < 0.1:
                records.append(["wall clock", None, None, random.choice([1, 50, 99, 100, 101, 350])])
                continue
            now += random.choice([0, 0, 1, 2, 5, 9, 11, 40])
            timestamp = max(0, now - random.choice([0, 0, 0, 3, 12, 50]))
            amount = random.choice([None, 7, 8, 13, *range(20)])
            value = json.dumps({"user": random.choice(["x", None]), "amount": amount}, separators=(",", ":"))
            key = random.choice(["a", "a", "b", "ab", None])
            records.append([random.choice(topics), key, None if random.random() < 0.1 else value, timestamp])
        return records
