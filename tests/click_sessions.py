"""Random clicks, and the sessions that they make when each user's clicks are put in order and cut at the gaps."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

START = 1_700_000_000_000
MINUTE_MS = 60_000
_GAP_MS = 30 * MINUTE_MS
_GRACE_MS = 5 * MINUTE_MS


@dataclass(frozen=True)
class Click:
    """A click of a user; ``purchase_cents`` where something was bought."""

    user: str
    timestamp: int
    purchase_cents: int | None = None


def random_clicks(seed: int, count: int) -> list[Click]:
    """Clicks of some hours in the order of their sending, less than the grace out of order.

    So late a click can neither be dropped nor lengthen a session that is over.
    """
    chance = random.Random(seed)
    now = START
    clicks = []
    for _ in range(count):
        now += chance.choice((0, 1, 1_000, MINUTE_MS, 7 * MINUTE_MS))
        late = chance.choice((0, 0, chance.randrange(_GRACE_MS)))
        clicks.append(Click(f"u{chance.randrange(5)}", now - late, chance.choice((None, chance.randrange(1, 9_000)))))
    return clicks


def summaries(clicks: Iterable[Click], *, until: int) -> list[dict[str, Any]]:
    """The sessions that are over for certain when ``until`` was the latest click, by user and start."""
    by_user: dict[str, list[Click]] = {}
    for click in clicks:
        by_user.setdefault(click.user, []).append(click)
    found: list[dict[str, Any]] = []
    for user, own in sorted(by_user.items()):
        session: list[Click] = []
        for click in sorted(own, key=lambda each: each.timestamp):
            if session and click.timestamp - session[-1].timestamp > _GAP_MS:
                found.append(_summary(user, session))
                session = []
            session.append(click)
        found.append(_summary(user, session))
    return [one for one in found if one["end"] + _GAP_MS + _GRACE_MS < until]


def _summary(user: str, session: list[Click]) -> dict[str, Any]:
    purchases = [click.purchase_cents for click in session if click.purchase_cents is not None]
    return {
        "user": user,
        "start": session[0].timestamp,
        "end": session[-1].timestamp,
        "clicks": len(session),
        "purchases_cents": sum(purchases),
        "dearest_cents": max(purchases, default=None),
    }
