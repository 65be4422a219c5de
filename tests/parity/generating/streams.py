"""Streams in generated scenarios: what has no state, repartitioning, and turning into a table."""

from __future__ import annotations

from tests.parity.functions import FLAT_MAPPERS, FLAT_VALUE_MAPPERS, PAIR_MAPPERS
from tests.parity.generating import stores
from tests.parity.generating.draft import Draft, Kind, operator
from tests.parity.generating.functions import KEY_MAPPERS, predicates, value_mappers

_EXTRACTORS = ("amount", "amount or skip")


def open_streams(draft: Draft) -> None:
    """The first stream, over one topic or two."""
    draft.topics.append("in")
    if draft.chance(25):
        draft.topics.append("more")
    extractor = {"extractor": draft.choose(_EXTRACTORS)} if draft.chance(6) else {}
    draft.add("stream", Kind.STREAM, topics=list(draft.topics), **extractor)


@operator(Kind.STREAM)
def _filter(draft: Draft, on: str) -> None:
    draft.add(draft.choose(["filter", "filter_not"]), Kind.STREAM, on=on, fn=draft.choose(predicates(draft)))


@operator(Kind.STREAM)
def _map_values(draft: Draft, on: str) -> None:
    draft.add("map_values", Kind.STREAM, on=on, fn=draft.choose(value_mappers(draft)))


@operator(Kind.STREAM)
def _select_key(draft: Draft, on: str) -> None:
    draft.add("select_key", Kind.STREAM, on=on, fn=draft.choose(KEY_MAPPERS))


@operator(Kind.STREAM)
def _map(draft: Draft, on: str) -> None:
    draft.add("map", Kind.STREAM, on=on, fn=draft.choose(PAIR_MAPPERS))


@operator(Kind.STREAM, weight=1)
def _flat_map(draft: Draft, on: str) -> None:
    draft.add("flat_map", Kind.STREAM, on=on, fn=draft.choose(FLAT_MAPPERS))


@operator(Kind.STREAM, weight=1)
def _flat_map_values(draft: Draft, on: str) -> None:
    draft.add("flat_map_values", Kind.STREAM, on=on, fn=draft.choose(FLAT_VALUE_MAPPERS))


@operator(Kind.STREAM, weight=1)
def _peek(draft: Draft, on: str) -> None:
    draft.add("peek", Kind.STREAM, on=on)


@operator(Kind.STREAM, weight=1)
def _repartition(draft: Draft, on: str) -> None:
    chosen = {"partitioner": True} if draft.chance(20) else {}
    draft.add("repartition", Kind.STREAM, on=on, name=draft.new_name("through"), **chosen)


@operator(Kind.STREAM)
def _branch(draft: Draft, on: str) -> None:
    names = [draft.new_name("s") for _ in range(3 if draft.chance(50) else 2)]
    parts = [{"fn": draft.choose(predicates(draft)), "as": name} for name in names[:2]]
    draft.steps.append({"op": "branch", "on": on, "branches": parts, **({"default": names[2]} if names[2:] else {})})
    for name in names:
        draft.made(name, Kind.STREAM)


@operator(Kind.STREAM, when=lambda draft: len(draft.of(Kind.STREAM)) > 1)
def _merge(draft: Draft, on: str) -> None:
    other = draft.choose([stream for stream in draft.of(Kind.STREAM) if stream != on])
    draft.add("merge", Kind.STREAM, on=on, **{"with": other})


@operator(Kind.STREAM)
def _to_table(draft: Draft, on: str) -> None:
    draft.add("to_table", Kind.TABLE, on=on, **stores.of_table(draft, 70))
