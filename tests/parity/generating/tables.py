"""Tables in generated scenarios: sources, operators, joins among themselves and with streams, groups."""

from __future__ import annotations

from typing import Any

from tests.parity.functions import JOINERS, PAIR_MAPPERS, TABLE_AGGREGATES, TABLE_REDUCERS
from tests.parity.generating import stores
from tests.parity.generating.draft import Draft, Kind, operator

_PREDICATES = ("always", "amount>10", "amount even", "has amount", "key==a")
_VALUE_MAPPERS = ("amount", "amount+1", "null if odd", "amount or -1", "key")
_TRANSFORMERS = ("amount", "amount+1", "amount or -1")


def open_table(draft: Draft) -> None:
    """A table over a topic of its own."""
    topic = "table" if "table" not in draft.topics else draft.new_name("table")
    draft.topics.append(topic)
    draft.add("table", Kind.TABLE, topic=topic, **stores.of_table(draft, 70))


@operator(Kind.TABLE)
def _to_stream(draft: Draft, on: str) -> None:
    draft.add("to_stream", Kind.STREAM, on=on)


@operator(Kind.TABLE)
def _filter(draft: Draft, on: str) -> None:
    op = draft.choose(["table_filter", "table_filter_not"])
    draft.add(op, Kind.TABLE, on=on, fn=draft.choose(_PREDICATES), **stores.of_table(draft, 40))


@operator(Kind.TABLE)
def _map_values(draft: Draft, on: str) -> None:
    draft.add("table_map_values", Kind.TABLE, on=on, fn=draft.choose(_VALUE_MAPPERS), **stores.of_table(draft, 40))


@operator(Kind.TABLE, weight=1)
def _transform_values(draft: Draft, on: str) -> None:
    draft.add("table_transform_values", Kind.TABLE, on=on, fn=draft.choose(_TRANSFORMERS), **stores.of_table(draft, 40))


@operator(Kind.TABLE, weight=4)
def _join(draft: Draft, on: str) -> None:
    op = draft.choose(["table_join", "table_left_join", "table_outer_join"])
    other = draft.choose(draft.of(Kind.TABLE))
    draft.add(op, Kind.TABLE, on=on, **{"with": other}, fn=draft.choose(JOINERS), **stores.of_table(draft, 40))


@operator(Kind.TABLE, weight=3)
def _group_by(draft: Draft, on: str) -> None:
    grouped = draft.add("table_group_by", None, on=on, fn=draft.choose(PAIR_MAPPERS))
    op = draft.choose(["table_count", "table_reduce", "table_aggregate"])
    functions = {"table_reduce": list(TABLE_REDUCERS), "table_aggregate": list(TABLE_AGGREGATES)}
    draft.add(op, Kind.TABLE, on=grouped, fn=draft.choose(functions.get(op, [""])), **stores.of_table(draft, 80))


@operator(Kind.STREAM, weight=4, when=lambda draft: bool(draft.of(Kind.TABLE)))
def _join_with_stream(draft: Draft, on: str) -> None:
    op = draft.choose(["join", "left_join"])
    table = draft.choose(draft.of(Kind.TABLE))
    grace = _grace(draft, table)
    if grace and op == "left_join":
        # Kafka Streams stops at a null key in a left join with grace.
        on = draft.add("filter", Kind.STREAM, on=on, fn="has key")
    draft.add(op, Kind.STREAM, on=on, table=table, fn=draft.choose(JOINERS), **grace)


def _grace(draft: Draft, table: str) -> dict[str, Any]:
    """How long a join waits, where the table has history enough."""
    history = draft.step(table).get("history", 0)
    if not history or draft.chance(30):
        return {}
    return {
        "name": draft.new_name("waiting"),
        "grace": draft.duration([grace for grace in (5, 12, 30) if grace <= history]),
    }
