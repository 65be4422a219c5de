"""Aggregations of streams in generated scenarios, with and without windows, and what follows windowed ones."""

from __future__ import annotations

from typing import Any

from tests.parity.functions import REDUCERS, TABLE_AGGREGATES
from tests.parity.generating import stores
from tests.parity.generating.draft import Draft, Kind, operator
from tests.parity.generating.functions import KEY_MAPPERS, aggregates

_GRACE = (0, 5, 30)


def group(draft: Draft, on: str, **options: Any) -> str:
    """Groups a stream by its key or by another."""
    if draft.chance(40):
        return draft.add("group_by", None, on=on, fn=draft.choose(KEY_MAPPERS), **options)
    return draft.add("group_by_key", None, on=on, **options)


def aggregate(draft: Draft, grouped: str, kind: Kind, store: dict[str, Any]) -> str:
    """Counts, reduces or aggregates what is grouped."""
    op = draft.choose(["count", "reduce", "aggregate"])
    functions = {"count": [""], "reduce": list(REDUCERS), "aggregate": aggregates(draft)}
    return draft.add(op, kind, on=grouped, fn=draft.choose(functions[op]), **store)


def windows(draft: Draft) -> dict[str, Any]:
    """The options of a ``windowed_by``."""
    match draft.choose(["tumbling", "hopping", "session", "sliding", "unlimited"]):
        case "tumbling":
            return {"size": draft.duration([10, 20, 35]), "grace": draft.duration(_GRACE)}
        case "hopping":
            size = draft.duration([10, 20, 35])
            return {"size": size, "advance": draft.choose([size, size // 2, 3]), "grace": draft.duration(_GRACE)}
        case "session":
            return {"gap": draft.duration([0, 3, 10, 25]), "grace": draft.duration(_GRACE)}
        case "sliding":
            return {"difference": draft.duration([1, 7, 20, 60]), "grace": draft.duration(_GRACE)}
        case _:
            return {"start": draft.choose([0, 45, 1_700_000_000_010])}


@operator(Kind.STREAM, weight=3)
def _aggregation(draft: Draft, on: str) -> None:
    aggregate(draft, group(draft, on), Kind.TABLE, stores.of_table(draft, 80))


@operator(Kind.STREAM, weight=6)
def _windowed_aggregation(draft: Draft, on: str) -> None:
    windowed_table(draft, on, windows(draft))


def windowed_table(draft: Draft, on: str, options: dict[str, Any]) -> str:
    """Aggregates a stream by windows with these options, now and then with results when they close."""
    on_close = "start" not in options and draft.chance(25)
    grouped = draft.add("windowed_by", None, on=group(draft, on), **options, **({"emit": "close"} if on_close else {}))
    # Of windows that are sent on their close Kafka Streams loses some, unless they outlive every jump of time.
    store = {"store": draft.new_name("store"), "retention": 10**12} if on_close else stores.named(draft, 80)
    return aggregate(draft, grouped, Kind.WINDOWED_TABLE, store)


@operator(Kind.WINDOWED_TABLE, weight=4)
def _to_stream(draft: Draft, on: str) -> None:
    draft.add("to_stream", Kind.WINDOWED_STREAM, on=on)


@operator(Kind.WINDOWED_STREAM, weight=1)
def _of_one_key(draft: Draft, on: str) -> None:
    draft.add("select_key", Kind.STREAM, on=on, fn="key@start")


@operator(Kind.WINDOWED_TABLE, weight=1)
def _group_by(draft: Draft, on: str) -> None:
    grouped = draft.add("table_group_by", None, on=on, fn=draft.choose(["amount mod 3, value", "user, amount"]))
    draft.add(
        "table_aggregate", Kind.TABLE, on=grouped, fn=draft.choose(TABLE_AGGREGATES), **stores.of_table(draft, 80)
    )


@operator(Kind.WINDOWED_STREAM, weight=1)
def _map_values(draft: Draft, on: str) -> None:
    draft.add("map_values", Kind.WINDOWED_STREAM, on=on, fn=draft.choose(["amount", "amount+1", "null if odd"]))


@operator(Kind.WINDOWED_STREAM, weight=1)
def _filter(draft: Draft, on: str) -> None:
    draft.add("filter", Kind.WINDOWED_STREAM, on=on, fn=draft.choose(["always", "amount>10", "amount even"]))
