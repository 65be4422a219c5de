"""Joins by a foreign key in generated scenarios."""

from __future__ import annotations

from typing import Any

from tests.parity.functions import JOINERS
from tests.parity.generating import stores
from tests.parity.generating.draft import Draft, Kind, operator
from tests.parity.generating.functions import HANDLED
from tests.parity.generating.windowed_tables import is_looked_up, keys_are_read

_OF_VALUES = ("user", "amount mod 3")
_FOREIGN_KEYS = ("x", "y", "m0", "m1", "m2", "a", None)
"""Keys of a table that others refer to: most of what the extractors give."""


@operator(Kind.TABLE, weight=5)
def _join(draft: Draft, on: str) -> None:
    sides = [on, _referred(draft)]
    if draft.chance(25):
        sides.reverse()
    draft.add(
        "foreign_key_join",
        Kind.TABLE,
        on=sides[0],
        **_options(draft, sides[1], (*_OF_VALUES, "same")),
        **stores.of_table(draft, 40),
    )


@operator(Kind.WINDOWED_TABLE, weight=2)
def _join_of_windows(draft: Draft, on: str) -> None:
    if not is_looked_up(draft, on) or not keys_are_read(draft, on):
        return
    other = _referred(draft)
    draft.add(
        "foreign_key_join", Kind.WINDOWED_TABLE, on=on, **_options(draft, other, _OF_VALUES), **stores.named(draft, 30)
    )


def _options(draft: Draft, other: str, extractors: tuple[str, ...]) -> dict[str, Any]:
    failing = ("user, fails on 13",) if HANDLED in draft.settings else ()
    return {
        "with": other,
        "kind": draft.choose(["inner", "left"]),
        "by": draft.choose([*extractors, *failing]),
        "fn": draft.choose(JOINERS),
        **({"name": draft.new_name("foreign")} if draft.chance(30) else {}),
    }


def _referred(draft: Draft) -> str:
    """The table that foreign keys refer to: one with such keys, or one that there is."""
    tables = draft.of(Kind.TABLE)
    if tables and draft.chance(50):
        return draft.choose(tables)
    topic = draft.new_name("referred")
    draft.topics.append(topic)
    draft.keys[topic] = _FOREIGN_KEYS
    return draft.add("table", Kind.TABLE, topic=topic, **stores.of_table(draft, 70))
