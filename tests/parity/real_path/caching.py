"""Caches: which stores have one, and what of a scenario's output is defined when some have.

A cached store hands on the last change of each key in a commit. Where commits fall is a matter of chance, so of what
comes out of it only the last value of each key is defined, and nothing of what is made of it by a look at each change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Any

from tests.parity.functions import VALUE_MAPPERS
from tests.parity.scenario import Scenario

_STORING = {"count", "reduce", "aggregate", "cogroup_aggregate", "table_count", "table_reduce", "table_aggregate"}
_ALWAYS_STORED = _STORING | {"table", "to_table"}
_TABLE_JOINS = {"table_join", "table_left_join", "table_outer_join"}
_STREAM_JOINS = {"join", "left_join"}
_FOR_EACH_KEY = {"table_filter", "table_filter_not", "table_map_values", "to_stream", "peek", "repartition", "to_table"}
"""Operators whose last change of a key depends on nothing but the last change of that key before them."""

_OF_VALUES = {"map_values", "table_transform_values"}


def with_caching(scenario: Scenario, random: Random, *, percent: int = 60) -> Scenario:
    """The scenario with caches in some of its stores, and the changes of each cached table on a topic of its own.

    Versioned stores have no caches, as in Kafka Streams.
    """
    steps: list[dict[str, Any]] = []
    changes: list[dict[str, Any]] = []
    for step in scenario["topology"]:
        stored = step["op"] in _ALWAYS_STORED or "store" in step
        if stored and "history" not in step and random.randrange(100) < percent:
            name = f"{step['as']}-changes"
            changes += [{"op": "to_stream", "as": name, "on": step["as"]}, {"op": "to", "on": name, "topic": name}]
            steps.append({**step, "cached": True})
        else:
            steps.append(step)
    return {**scenario, "topology": steps + changes}


def without_caching(scenario: Scenario) -> Scenario:
    """The same scenario with the caches off."""
    steps = [{name: option for name, option in step.items() if name != "cached"} for step in scenario["topology"]]
    return {**scenario, "topology": steps}


class Defined(Enum):
    """What is defined of the changes that a step hands on, or of an output topic."""

    ORDER = "every record, in order"
    LAST_VALUES = "the last value of each key"
    NOTHING = "nothing"


@dataclass(frozen=True)
class Output:
    """What can be said of what a step hands on.

    Args:
        defined: how much of it.
        reason: why not all of it; empty where everything is.
        up_to_date: whether a lookup in the step's table sees what it would see without caches.
    """

    defined: Defined
    reason: str = ""
    up_to_date: bool = True


def defined_outputs(scenario: Scenario) -> dict[str, Output]:
    """What is defined of each output topic."""
    outputs: dict[str, Output] = {}
    topics = {}
    windowed: set[str] = set()
    for step in scenario["topology"]:
        if step["op"] == "windowed_by" or step.get("on") in windowed:
            windowed.add(step.get("as", ""))
        if step["op"] == "to":
            topics[step["topic"]] = outputs[step["on"]]
        elif step["op"] == "branch":
            found = _after(step, outputs, windowed)
            outputs |= {part["as"]: found for part in step["branches"]}
            outputs |= {step["default"]: found} if "default" in step else {}
        elif "as" in step:
            outputs[step["as"]] = _after(step, outputs, windowed)
    return topics


def _after(step: dict[str, Any], outputs: dict[str, Output], windowed: set[str]) -> Output:
    sides = [step.get("on"), step.get("with"), step.get("table")]
    behind_a_cache = any(outputs[side].defined is not Defined.ORDER for side in sides if side is not None)
    if step["op"] in _TABLE_JOINS | _STREAM_JOINS and behind_a_cache and not windowed.isdisjoint(sides):
        return Output(Defined.NOTHING, "rows of windows expire while changes wait in a cache")
    names = [step.get("on"), step.get("with"), *(each["on"] for each in step.get("inputs", ()))]
    above = [outputs[name] for name in names if name is not None]
    worst = max(above, key=lambda each: list(Defined).index(each.defined), default=Output(Defined.ORDER))
    if worst.defined is Defined.NOTHING:
        return worst
    if worst.defined is Defined.LAST_VALUES:
        return _of_last_values(step, above, worst)
    if step["op"] in _STREAM_JOINS and not outputs[step["table"]].up_to_date:
        return Output(Defined.NOTHING, "looks up a stored table that is behind the cache above it")
    if step.get("cached"):
        return Output(Defined.LAST_VALUES, "a cache merges changes")
    return Output(Defined.ORDER, up_to_date=all(each.up_to_date for each in above))


def _of_last_values(step: dict[str, Any], above: list[Output], worst: Output) -> Output:
    op = step["op"]
    if "history" in step:
        return Output(Defined.NOTHING, "the versions in between are missing")
    up_to_date = all(each.up_to_date for each in above) and "store" not in step and op != "to_table"
    kept = Output(Defined.LAST_VALUES, worst.reason, up_to_date)
    if op in _FOR_EACH_KEY or op in _TABLE_JOINS:
        return kept
    if op in _OF_VALUES:
        if _keeps_null(VALUE_MAPPERS[step["fn"]]):
            return kept
        return Output(Defined.NOTHING, "makes values of deletions, which a cache leaves out for rows that never were")
    return Output(Defined.NOTHING, f"{op} sees every change of a cached table")


def _keeps_null(function: Callable[[Any, Any], Any]) -> bool:
    """Whether a function makes nothing of nothing, and never fails."""
    return function("a", None) is None and function is not VALUE_MAPPERS["fails on 13"]
