"""Stores in generated scenarios: named ones or not, in memory or on disk, with or without changelog or history."""

from __future__ import annotations

from typing import Any

from tests.parity.generating.draft import Draft

_HISTORY = (30, 0, 12, 1000)
_SEGMENT_INTERVALS = (7, 1, 200)


def named(draft: Draft, percent: int) -> dict[str, Any]:
    """The option that names a store, in ``percent`` of a hundred cases."""
    if not draft.chance(percent):
        return {}
    return {"store": draft.new_name("store"), **({"logged": False} if draft.chance(6) else {})}


def of_table(draft: Draft, percent: int) -> dict[str, Any]:
    """The options of a store by key: named in ``percent`` of a hundred cases, sometimes in a place or with history."""
    store = named(draft, percent)
    if not store or draft.chance(70):
        return store
    if draft.chance(40):
        return {**store, "place": draft.choose(["memory", "disk"])}
    intervals = {"segment_interval": draft.choose(_SEGMENT_INTERVALS)} if draft.chance(50) else {}
    return {"store": store["store"], "history": draft.duration(_HISTORY), **intervals}
