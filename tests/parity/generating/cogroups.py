"""Cogroups in generated scenarios."""

from __future__ import annotations

from tests.parity.functions import COGROUPED
from tests.parity.generating import stores
from tests.parity.generating.aggregations import group, windows
from tests.parity.generating.draft import Draft, Kind, operator


@operator(Kind.STREAM, weight=3)
def _cogroup(draft: Draft, on: str) -> None:
    streams = [on, *(draft.choose(draft.of(Kind.STREAM)) for _ in range(draft.between(0, 2)))]
    fn = draft.choose(COGROUPED)
    inputs = [
        {"on": group(draft, stream, name=draft.new_name("group")), "fn": draft.choose(COGROUPED[fn])}
        for stream in dict.fromkeys(streams)
    ]
    cogrouped = draft.add("cogroup", None, inputs=inputs)
    if draft.chance(60):
        windowed = draft.add("windowed_by", None, on=cogrouped, **windows(draft))
        draft.add("cogroup_aggregate", Kind.WINDOWED_TABLE, on=windowed, fn=fn, **stores.named(draft, 80))
    else:
        draft.add("cogroup_aggregate", Kind.TABLE, on=cogrouped, fn=fn, **stores.of_table(draft, 80))
