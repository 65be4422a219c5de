"""Joins of two streams in generated scenarios."""

from __future__ import annotations

from tests.parity.functions import JOINERS
from tests.parity.generating.draft import Draft, Kind, operator


@operator(Kind.STREAM, weight=4)
def _join(draft: Draft, on: str) -> None:
    other = draft.choose(draft.of(Kind.STREAM))
    if draft.chance(50):
        if "other" not in draft.topics:
            draft.topics.append("other")
        other = draft.add("stream", Kind.STREAM, topics=["other"])
    sides = [on, other] if draft.chance(50) else [other, on]
    before, after = draft.choose([(10, 10), (0, 5), (30, 0), (-2, 20), (0, 0)])
    draft.durations |= {abs(before), after}
    draft.add(
        "stream_join",
        Kind.STREAM,
        on=sides[0],
        **{"with": sides[1]},
        kind=draft.choose(["inner", "left", "outer"]),
        fn=draft.choose([fn for fn in JOINERS if fn != "null if even"]),
        before=before,
        after=after,
        grace=draft.duration([0, 5, 60]),
        buffers=draft.new_name("buffers"),
    )
