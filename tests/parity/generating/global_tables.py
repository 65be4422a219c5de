"""Global tables and their joins in generated scenarios."""

from __future__ import annotations

from tests.parity.functions import JOINERS
from tests.parity.generating.draft import Draft, Kind, operator
from tests.parity.generating.functions import KEY_MAPPERS


@operator(Kind.STREAM, weight=3)
def _join(draft: Draft, on: str) -> None:
    tables = draft.of(Kind.GLOBAL_TABLE)
    table = draft.choose(tables) if tables and draft.chance(50) else _global_table(draft)
    takes = draft.choose([{}, {"takes": "key"}, {"takes": "both keys"}])
    op = draft.choose(["global_join", "global_left_join"])
    options = {"table": table, "selector": draft.choose(KEY_MAPPERS), "fn": draft.choose(JOINERS), **takes}
    draft.add(op, Kind.STREAM, on=on, **options)


def _store(draft: Draft) -> dict[str, str]:
    return {"store": draft.new_name("store")} if draft.chance(70) else {}


def _global_table(draft: Draft) -> str:
    topic = draft.new_name("global")
    draft.topics.append(topic)
    return draft.add("global_table", Kind.GLOBAL_TABLE, topic=topic, **_store(draft))
