"""Scenarios as a cluster can run them: an order of input that is kept there, and names that do not meet."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from random import Random
from typing import Any

from millrace.topology.topology import FrozenTopology
from tests.parity.scenario import REWRITES, WALL_CLOCK, Scenario
from tests.parity.scenario_topology import ScenarioTopology, is_order_defined
from tests.records import Record

_NAMES = ("as", "on", "with", "table", "default", "store", "name", "buffers", "topic")
"""Options of a step that name something, or refer to it."""


def for_broker(scenario: Scenario, random: Random, *, segments: int = 5) -> Scenario | None:
    """The scenario with its input in an order that a cluster keeps; ``None`` if it cannot be run there.

    A task takes the topics of one batch in the order of their timestamps, so the input is cut into segments, each of
    which has the records of one topic after those of another; they are sent topic by topic. All stores have changelogs
    there, since tasks are restarted.
    """
    ops = {step["op"] for step in scenario["topology"]}
    by_wall_clock = "null results at most once a second" in scenario["settings"]
    if (
        by_wall_clock
        or ops & {"global_table", "suppress"}
        or any(
            "by" in step or "partitioner" in step for step in scenario["topology"] if step["op"] != "foreign_key_join"
        )
        or not is_order_defined(ScenarioTopology(scenario, in_columns=False).build())
    ):
        return None
    rows = [
        [topic, key, value, timestamp or 1, *headers]
        for topic, key, value, timestamp, *headers in scenario["input"]
        if topic != WALL_CLOCK
    ]
    cuts = sorted(random.randrange(len(rows) + 1) for _ in range(segments - 1))
    parts = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    ordered = [row for part in parts for row in sorted(part, key=lambda row: str(row[0]))]
    logged = [{name: option for name, option in step.items() if name != "logged"} for step in scenario["topology"]]
    return {
        **scenario,
        "topology": logged,
        "input": ordered,
        "settings": [s for s in scenario["settings"] if s != "dead letters"],
    }


def with_prefix(scenario: Scenario, prefix: str) -> Scenario:
    """The scenario with a prefix to the names of its topics, steps and stores."""

    def named(step: Mapping[str, Any]) -> dict[str, Any]:
        changed = {**step, **{option: f"{prefix}{step[option]}" for option in _NAMES if option in step}}
        if "topics" in step:
            changed["topics"] = [f"{prefix}{topic}" for topic in step["topics"]]
        for parts in ("inputs", "branches"):
            if parts in step:
                changed[parts] = [named(part) for part in step[parts]]
        return changed

    return {
        **scenario,
        "topology": [named(step) for step in scenario["topology"]],
        "input": [[f"{prefix}{row[0]}", *row[1:]] for row in scenario["input"]],
    }


def rewrites_of(scenario: Scenario) -> tuple[str, ...]:
    """The rewrites that a scenario's settings ask for."""
    return tuple(REWRITES[sentence] for sentence in scenario["settings"] if sentence in REWRITES)


def topics_of(topology: FrozenTopology, application_id: str) -> set[str]:
    """The names of all topics of an application, internal ones included."""
    internal = {f"{application_id}-{spec.name}" for spec in topology.repartition_topics}
    for part in topology.sub_topologies:
        internal |= {name for store in part.stores if (name := store.changelog_topic(application_id)) is not None}
    return {*internal, *topology.external_inputs, *topology.external_outputs}


def chunks(scenario: Scenario) -> list[tuple[str, list[Record]]]:
    """The input as runs of records of one topic, each of which must be through before the next one is sent."""
    return [
        (topic, [_record(*row[1:]) for row in rows]) for topic, rows in groupby(scenario["input"], lambda row: row[0])
    ]


def _record(key: str | None, value: str | None, timestamp: int, headers: Mapping[str, str] | None = None) -> Record:
    pairs: list[tuple[str, bytes | None]] = [(name, text.encode()) for name, text in (headers or {}).items()]
    return Record(None if key is None else key.encode(), None if value is None else value.encode(), timestamp, 0, pairs)
