"""Random views and actions, and what user analytics makes of them by comparing each action with each view."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

START = 1_700_000_000_000
HOUR_MS = 3_600_000
_ATTENTION_MS = 600_000
_OUT_OF_ORDER_MS = 50_000


@dataclass(frozen=True)
class Event:
    """A view or an action of a user, as it goes into its topic."""

    kind: str
    user: str
    value: dict[str, Any]
    timestamp: int


@dataclass(frozen=True)
class Pair:
    """An action on a page that its user viewed before."""

    user: str
    view_id: str
    action_id: str
    page: str
    kind: str
    viewed_at: int
    timestamp: int


def users() -> dict[str, dict[str, Any]]:
    """The users that are known; ``random_events`` has some more."""
    return {f"u{number}": {"name": f"user {number}", "country": "DE" if number % 2 else "PT"} for number in range(4)}


def random_events(seed: int, count: int) -> list[Event]:
    """Events of half a minute's distance, in the order of their sending, up to fifty seconds out of order."""
    chance = random.Random(seed)
    events = []
    for number in range(count):
        user = f"u{chance.randrange(6)}"
        timestamp = START + number * 30_000 - chance.choice((0, 0, chance.randrange(_OUT_OF_ORDER_MS)))
        if chance.random() < 0.5:
            value = {"view_id": f"v{number}", "page": f"/{chance.randrange(5)}"}
            events.append(Event("view", user, value, timestamp))
        else:
            value = {"action_id": f"a{number}", "kind": chance.choice(("click", "like", "share"))}
            events.append(Event("action", user, value, timestamp))
    return events


def pairs(events: Sequence[Event]) -> list[Pair]:
    """Each action with each view of its user in the ten minutes before it, both ends included."""
    views = [event for event in events if event.kind == "view"]
    return [
        Pair(
            action.user,
            view.value["view_id"],
            action.value["action_id"],
            view.value["page"],
            action.value["kind"],
            view.timestamp,
            action.timestamp,
        )
        for action in events
        if action.kind == "action"
        for view in views
        if view.user == action.user and 0 <= action.timestamp - view.timestamp <= _ATTENTION_MS
    ]


def activity(found: Sequence[Pair], table: dict[str, dict[str, Any]]) -> list[tuple[str, dict[str, Any], int]]:
    """The records of the activity topic, in no particular order."""
    unknown = {"name": "UNKNOWN", "country": "UNKNOWN"}
    return [
        (
            pair.user,
            {
                "view_id": pair.view_id,
                "action_id": pair.action_id,
                "page": pair.page,
                "kind": pair.kind,
                **table.get(pair.user, unknown),
            },
            pair.timestamp,
        )
        for pair in found
    ]
