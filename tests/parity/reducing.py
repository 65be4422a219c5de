"""Makes a scenario smaller while something about it stays true: hypothesis leaves steps in the middle of chains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.parity.scenario import Scenario

Step = dict[str, Any]


def reduced(scenario: Scenario, still_holds: Callable[[Scenario], bool]) -> Scenario:
    """The smallest scenario that leaving out one thing after the other leads to.

    Args:
        scenario: where to start; ``still_holds`` is true of it.
        still_holds: what must stay true; it is asked about scenarios that may not make sense.
    """
    smaller: Scenario | None = scenario
    while smaller is not None:
        scenario = smaller
        smaller = next((candidate for candidate in _smaller(scenario) if still_holds(candidate)), None)
    return scenario


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    rows, steps, settings = scenario["input"], scenario["topology"], scenario.get("settings", [])
    half = len(rows) // 2
    if half > 1:
        yield {**scenario, "input": rows[:half]}
        yield {**scenario, "input": rows[half:]}
    for number in reversed(range(len(steps))):
        yield {**scenario, "topology": _without(steps, number)}
        if "on" in steps[number] and "as" in steps[number]:
            yield {**scenario, "topology": _bypassing(steps, number)}
    for number in range(len(rows)):
        yield {**scenario, "input": [*rows[:number], *rows[number + 1 :]]}
    for number, row in enumerate(rows):
        if len(row) > 4:
            yield {**scenario, "input": [*rows[:number], row[:4], *rows[number + 1 :]]}
    for sentence in settings:
        yield {**scenario, "settings": [other for other in settings if other != sentence]}


def _without(steps: list[Step], number: int) -> list[Step]:
    """The steps without one, and without what stands on it."""
    gone = _names(steps[number])
    kept = steps[:number]
    for step in steps[number + 1 :]:
        if gone & {
            step.get("on"),
            step.get("with"),
            step.get("table"),
            *(part["on"] for part in step.get("inputs", ())),
        }:
            gone |= _names(step)
        else:
            kept.append(step)
    return kept


def _bypassing(steps: list[Step], number: int) -> list[Step]:
    """The steps with what stood on one of them standing on what that stands on."""
    name, on = steps[number]["as"], steps[number]["on"]
    return [
        {key: on if key in {"on", "with", "table"} and value == name else value for key, value in step.items()}
        for step in (*steps[:number], *steps[number + 1 :])
    ]


def _names(step: Step) -> set[str]:
    branches = {part["as"] for part in step.get("branches", ())}
    return branches | {step[key] for key in ("as", "default") if key in step}
