"""Tables whose keys have windows in generated scenarios: their operators, and joins of what has the same windows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.parity.functions import JOINERS
from tests.parity.generating import stores
from tests.parity.generating.aggregations import windowed_table
from tests.parity.generating.draft import Draft, Kind, operator

_PREDICATES = ("always", "amount>10", "amount even", "has amount")
_OF_WINDOWS = ("size", "advance", "gap", "difference", "start", "grace")
_VALUE_MAPPERS = ("amount", "amount+1", "null if odd", "amount or -1")


def steps_above(draft: Draft, name: str) -> Iterator[dict[str, Any]]:
    """The step of a table or stream and those that it is made of, back to where its windows begin."""
    step = draft.step(name)
    yield step
    if step.get("op") != "windowed_by":
        for side in ("on", "with"):
            if side in step:
                yield from steps_above(draft, step[side])


def windows_of(draft: Draft, name: str) -> dict[str, Any]:
    """What decides about the windows in the keys of a stream or table: options of its ``windowed_by``."""
    step = next(step for step in steps_above(draft, name) if step["op"] == "windowed_by")
    return {option: step[option] for option in _OF_WINDOWS if option in step}


def is_looked_up(draft: Draft, name: str) -> bool:
    """Whether rows of a windowed table can be looked up: Kafka Streams fails to do so behind a windowed cogroup."""
    return all(step.get("op") != "cogroup_aggregate" for step in steps_above(draft, name))


def keys_are_read(draft: Draft, name: str) -> bool:
    """Whether Kafka Streams' side can read keys with windows: not behind a store that has but a serde of text."""
    stored = [step["op"] for step in steps_above(draft, name) if "store" in step]
    return not any(op.startswith(("table_", "foreign_key_join")) for op in stored)


@operator(Kind.WINDOWED_TABLE, weight=1)
def _filter(draft: Draft, on: str) -> None:
    op = draft.choose(["table_filter", "table_filter_not"])
    draft.add(op, Kind.WINDOWED_TABLE, on=on, fn=draft.choose(_PREDICATES), **stores.named(draft, 40))


@operator(Kind.WINDOWED_TABLE, weight=1)
def _map_values(draft: Draft, on: str) -> None:
    op = draft.choose(["table_map_values", "table_transform_values"])
    draft.add(op, Kind.WINDOWED_TABLE, on=on, fn=draft.choose(_VALUE_MAPPERS), **stores.named(draft, 40))


@operator(Kind.WINDOWED_TABLE, weight=5)
def _join(draft: Draft, on: str) -> None:
    if not is_looked_up(draft, on):
        return
    op = draft.choose(["table_join", "table_left_join", "table_outer_join"])
    sides = [on, _partner(draft, on)]
    if draft.chance(30):
        sides.reverse()
    options = {"with": sides[1], "fn": draft.choose(JOINERS), **stores.named(draft, 30)}
    draft.add(op, Kind.WINDOWED_TABLE, on=sides[0], **options)


@operator(Kind.WINDOWED_STREAM, weight=3)
def _join_with_stream(draft: Draft, on: str) -> None:
    op = draft.choose(["join", "left_join"])
    draft.add(op, Kind.WINDOWED_STREAM, on=on, table=_partner(draft, on), fn=draft.choose(JOINERS))


def _partner(draft: Draft, on: str) -> str:
    """A table with the same windows, which may be ``on`` itself or another one."""
    windows = windows_of(draft, on)
    tables = [
        table
        for table in draft.of(Kind.WINDOWED_TABLE)
        if is_looked_up(draft, table) and windows_of(draft, table) == windows
    ]
    if tables and draft.chance(50):
        return draft.choose(tables)
    return windowed_table(draft, draft.choose(draft.of(Kind.STREAM)), windows)
