"""Random scenarios over all operators of the format: the same seed gives the same scenario."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.parity.functions import (
    AGGREGATES,
    COGROUPED,
    FLAT_MAPPERS,
    FLAT_VALUE_MAPPERS,
    JOINERS,
    PAIR_MAPPERS,
    REDUCERS,
    TABLE_AGGREGATES,
    TABLE_REDUCERS,
)
from tests.parity.scenario import Scenario

_PREDICATES = ("amount>10", "amount even", "has amount", "key==a", "always")
_KEY_MAPPERS = ("user", "amount mod 3", "same")
_VALUE_MAPPERS = ("amount", "amount+1", "null if odd", "key")


def generate(seed: int) -> Scenario:
    """The scenario of a seed."""
    return _Generator(Random(seed), Random(f"versions {seed}")).scenario()


class _Generator:
    def __init__(self, random: Random, versions: Random) -> None:
        self._random = random
        self._versions = versions
        self._steps: list[dict[str, Any]] = []
        self._count = 0
        self._tables: list[str] = []
        self._history: dict[str, int | None] = {}
        self._re_keyed: set[str] = set()

    def scenario(self) -> Scenario:
        random = self._random
        topics = ["in", "more"] if random.random() < 0.3 else ["in"]
        source = self._add("stream", topics=list(topics))
        streams = [source]
        if random.random() < 0.5:
            history = self._versions.choice([None, None, 0, 10, 40, 100_000])
            options = {"history": history, "segment_interval": self._versions.choice([1, 7, 5_000])}
            table = self._add("table", topic="table", store=self._name("store"), **({} if history is None else options))
            self._history[table] = history
            self._tables.append(table)
            topics.append("table")
            if random.random() < 0.5:
                self._to(self._add("to_stream", on=table))
        for _ in range(random.randint(1, 5)):
            on = random.choice(streams)
            streams += self._operator(on, streams)
        if random.random() < 0.4:
            streams += self._stream_join(streams, topics)
        if random.random() < 0.3:
            streams += self._global_joins(streams, topics)
        ends = random.sample(streams, k=min(len(streams), random.randint(1, 3)))
        for end in ends:
            self._finish(end)
        if random.random() < 0.3:
            self._cogroup(streams)
        settings = random.choice([[], ["continue after deserialization errors"]])
        return {"topology": self._steps, "input": self._input(topics, bool(settings)), "settings": settings}

    def _name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def _add(self, op: str, **options: Any) -> str:
        name = self._name("s")
        self._steps.append({"op": op, "as": name, **options})
        if op in {"map", "flat_map", "select_key"} or options.get("on") in self._re_keyed:
            self._re_keyed.add(name)
        return name

    def _operator(self, on: str, streams: list[str]) -> list[str]:
        random = self._random
        if self._tables and random.random() < 0.3:
            return self._table_operator(random.choice(self._tables))
        choice = random.choice(["filter", "map_values", "key", "flat", "branch", "merge", "join", "table", "through"])
        made: list[str]
        match choice:
            case "filter":
                made = [self._add(random.choice(["filter", "filter_not"]), on=on, fn=random.choice(_PREDICATES))]
            case "map_values":
                made = [self._add("map_values", on=on, fn=random.choice(_VALUE_MAPPERS))]
            case "key" if random.random() < 0.5:
                made = [self._add("select_key", on=on, fn=random.choice(_KEY_MAPPERS))]
            case "key":
                made = [self._add("map", on=on, fn=random.choice(list(PAIR_MAPPERS)))]
            case "flat" if random.random() < 0.5:
                made = [self._add("flat_map", on=on, fn=random.choice(list(FLAT_MAPPERS)))]
            case "flat":
                made = [self._add("flat_map_values", on=on, fn=random.choice(list(FLAT_VALUE_MAPPERS)))]
            case "branch":
                made = self._branch(on)
            case "merge":
                made = [self._merge(on, random.choice(streams))]
            case "join" if self._tables:
                op = random.choice(["join", "left_join"])
                table = random.choice(self._tables)
                # Kafka Streams' left join with grace dies of a null key.
                longest = self._history.get(table) if op == "join" else None
                grace = {} if longest is None else {"grace": self._versions.choice([0, longest // 2, longest])}
                made = [self._add(op, on=on, table=table, fn=random.choice(list(JOINERS)), **grace)]
                self._re_keyed.discard(made[0])
            case "table":
                table = self._add("to_table", on=on, store=self._name("store"))
                self._tables.append(table)
                self._re_keyed.discard(table)
                made = [self._add("to_stream", on=table)]
            case "through":
                made = [self._add("repartition", on=on, name=self._name("through"))]
                self._re_keyed.discard(made[0])
            case _:
                made = [self._add("peek", on=on)]
        return made

    def _stream_join(self, streams: list[str], topics: list[str]) -> list[str]:
        """A join with another topic's stream or with one of the same topic; perhaps its result once more."""
        random = self._random
        made: list[str] = []
        other = random.choice(streams)
        if random.random() < 0.7:
            other = self._add("stream", topics=["other"])
            topics.append("other")
        for _ in range(random.choice([1, 1, 2])):
            before, after = random.choice([(10, 10), (0, 5), (30, 0), (-2, 20), (0, 0)])
            sides = [random.choice(made or streams), other]
            random.shuffle(sides)
            options = {
                "kind": random.choice(["inner", "left", "outer"]),
                "fn": random.choice([fn for fn in JOINERS if fn != "null if even"]),
                "before": before,
                "after": after,
                "grace": random.choice([0, 5, 60]),
                "buffers": self._name("buffers"),
            }
            made.append(self._add("stream_join", on=sides[0], **{"with": sides[1]}, **options))
            self._re_keyed.discard(made[-1])
        return made

    def _global_joins(self, streams: list[str], topics: list[str]) -> list[str]:
        """One or two joins with a global table; the joined stream is re-keyed where the joined one was."""
        random = self._random
        store = {"store": self._name("store")} if random.random() < 0.7 else {}
        table = self._add("global_table", topic="global", **store)
        topics.append("global")
        made: list[str] = []
        for _ in range(random.choice([1, 1, 2])):
            takes = random.choice([{}, {}, {"takes": "key"}, {"takes": "both keys"}])
            options = {"selector": random.choice([*_KEY_MAPPERS, "key"]), "fn": random.choice(list(JOINERS)), **takes}
            op = random.choice(["global_join", "global_left_join"])
            made.append(self._add(op, on=random.choice([*made, *streams]), table=table, **options))
        return made

    def _table_operator(self, on: str) -> list[str]:
        random = self._random
        store = {"store": self._name("store")} if random.random() < 0.4 else {}
        match random.choice(["filter", "map", "join", "join", "group"]):
            case "filter":
                op = random.choice(["table_filter", "table_filter_not"])
                made = self._add(op, on=on, fn=random.choice(_PREDICATES), **store)
            case "map" if random.random() < 0.3:
                fn = random.choice(("amount", "amount+1", "amount or -1"))
                made = self._add("table_transform_values", on=on, fn=fn, **store)
            case "map":
                made = self._add(
                    "table_map_values", on=on, fn=random.choice((*_VALUE_MAPPERS, "amount or -1")), **store
                )
            case "join":
                op = random.choice(["table_join", "table_left_join", "table_outer_join"])
                other = random.choice(self._tables)
                made = self._add(op, on=on, **{"with": other}, fn=random.choice(list(JOINERS)), **store)
            case _:
                grouped = self._add("table_group_by", on=on, fn=random.choice(list(PAIR_MAPPERS)))
                op = random.choice(["table_count", "table_reduce", "table_aggregate"])
                functions = {"table_reduce": list(TABLE_REDUCERS), "table_aggregate": list(TABLE_AGGREGATES)}
                fn = random.choice(functions.get(op, [""]))
                made = self._add(op, on=grouped, store=self._name("store"), fn=fn)
        self._tables.append(made)
        return [self._add("to_stream", on=made)] if random.random() < 0.7 else []

    def _branch(self, on: str) -> list[str]:
        names = [self._name("s") for _ in range(3)]
        branches = [{"fn": self._random.choice(_PREDICATES), "as": name} for name in names[:2]]
        step: dict[str, Any] = {"op": "branch", "on": on, "branches": branches}
        if self._random.random() < 0.5:
            step["default"] = names[2]
        else:
            names.pop()
        self._steps.append(step)
        if on in self._re_keyed:
            self._re_keyed |= set(names)
        return names

    def _merge(self, on: str, other: str) -> str:
        if on == other:
            return self._add("filter", on=on, fn="always")
        name = self._add("merge", on=on, **{"with": other})
        if other in self._re_keyed:
            self._re_keyed.add(name)
        return name

    def _finish(self, on: str) -> None:
        random = self._random
        end = random.choice(["to", "group", "group", "window", "window"])
        if end == "to":
            self._to(on)
            return
        if random.random() < 0.4:
            grouped = self._add("group_by", on=on, fn=random.choice(_KEY_MAPPERS))
        else:
            grouped = self._add("group_by_key", on=on)
        if end == "window":
            grouped = self._windowed(grouped)
        op = random.choice(["count", "reduce", "aggregate"])
        functions = {
            "count": [""],
            "reduce": list(REDUCERS),
            "aggregate": [fn for fn in AGGREGATES if "fails" not in fn],
        }
        table = self._add(op, on=grouped, store=self._name("store"), fn=random.choice(functions[op]))
        self._to(self._add("to_stream", on=table))

    def _windowed(self, grouped: str) -> str:
        random = self._random
        options: dict[str, Any]
        if random.random() < 0.5:
            options = {"gap": random.choice([0, 3, 10, 25]), "grace": random.choice([0, 5, 30])}
        elif random.random() < 0.5:
            options = {"difference": random.choice([1, 7, 20, 60]), "grace": random.choice([0, 5, 30])}
        elif random.random() < 0.2:
            options = {"start": random.choice([0, 45, 1_700_000_000_010])}
        else:
            size = random.choice([10, 20, 35])
            options = {"size": size, "grace": random.choice([0, 5, 30])}
            if random.random() < 0.5:
                options["advance"] = random.choice([size, size // 2, 3])
        return self._add("windowed_by", on=grouped, **options)

    def _cogroup(self, streams: list[str]) -> None:
        """Two or three streams, perhaps one of them twice, aggregated together.

        One goes through a repartition topic at most: which of two comes first is not defined for equal timestamps.
        """
        random = self._random
        keyed = [stream for stream in streams if stream not in self._re_keyed]
        if not keyed:
            return
        fn = random.choice(list(COGROUPED))
        inputs = []
        for place in range(random.choice([1, 2, 2, 3])):
            on, name = random.choice(streams if place == 0 else keyed), self._name("grouped")
            if place == 0 and random.random() < 0.3:
                grouped = self._add("group_by", on=on, fn=random.choice(_KEY_MAPPERS), name=name)
            else:
                grouped = self._add("group_by_key", on=on, name=name)
            inputs.append({"on": grouped, "fn": random.choice(COGROUPED[fn])})
        random.shuffle(inputs)
        cogrouped = self._add("cogroup", inputs=inputs)
        if random.random() < 0.6:
            cogrouped = self._windowed(cogrouped)
        table = self._add("cogroup_aggregate", on=cogrouped, store=self._name("store"), fn=fn)
        self._to(self._add("to_stream", on=table))

    def _to(self, on: str) -> None:
        self._steps.append({"op": "to", "on": on, "topic": self._name("out")})

    def _input(self, topics: list[str], with_poison: bool) -> list[list[Any]]:
        random = self._random
        records: list[list[Any]] = []
        now = random.choice([0, 40, 1_700_000_000_000])
        for _ in range(random.randint(5, 40)):
            now += random.choice([0, 0, 1, 2, 5, 11, 40])
            timestamp = max(0, now - random.choice([0, 0, 0, 3, 12, 50]))
            key = random.choice(["a", "b", "c", None])
            records.append([random.choice(topics), key, self._value(with_poison), timestamp])
        return records

    def _value(self, with_poison: bool) -> str | None:
        random = self._random
        if random.random() < 0.1:
            return None
        if with_poison and random.random() < 0.05:
            return "{not json"
        amount = random.choice([None, *range(25)])
        return json.dumps({"user": random.choice(["x", "y", None]), "amount": amount}, separators=(",", ":"))
