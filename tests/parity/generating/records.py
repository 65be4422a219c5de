"""Input of generated scenarios: times in and out of order, ties, and steps around what the operators wait for."""

from __future__ import annotations

import json
from typing import Any

from tests.parity.generating.draft import Draft

_MOST_RECORDS = 40
_KEYS = ("a", "b", "c", None)
_WALL_CLOCK = "wall clock"


def records(draft: Draft, *, poison: bool) -> list[list[Any]]:
    """Rows of a scenario's input.

    Args:
        draft: the finished topology.
        poison: whether there may be values that cannot be read.
    """
    steps = _steps(draft)
    back = (0, 0, 0, 0, *steps)
    now = draft.choose([40, 0, 1_700_000_000_000])
    rows: list[list[Any]] = []
    for _ in range(draft.between(1, _MOST_RECORDS)):
        if draft.chance(1):
            rows.append([_WALL_CLOCK, None, None, draft.choose([1000, 1, 10])])
        now += draft.choose(steps)
        timestamp = max(0, now - draft.choose(back))
        topic = draft.choose(draft.topics)
        row = [topic, draft.choose(draft.keys.get(topic, _KEYS)), _value(draft, poison), timestamp]
        rows.append([*row, _headers(draft)] if draft.chance(10) else row)
    return rows


def _steps(draft: Draft) -> tuple[int, ...]:
    """How much later the next record may be: nothing, a little, or what is just inside or outside a limit."""
    limits = sorted(draft.durations | {sum(draft.durations)})
    around = [step for limit in limits for step in (limit - 1, limit, limit + 1) if step > 0]
    return (0, 0, 0, 1, 2, 5, *around, 40)


def _value(draft: Draft, poison: bool) -> str | None:
    if draft.chance(10):
        return None
    if poison and draft.chance(5):
        return "{not json"
    amount = draft.between(-1, 24)
    user = draft.choose(["x", "y", None])
    return json.dumps({"user": user, "amount": None if amount < 0 else amount}, separators=(",", ":"))


def _headers(draft: Draft) -> dict[str, str]:
    return {draft.choose(["trace", "retry"]): draft.choose(["1", "2"]) for _ in range(draft.between(1, 2))}
