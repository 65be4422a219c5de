"""Joins of two streams in generated scenarios."""

from __future__ import annotations

from typing import Any

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
        fn=draft.choose(JOINERS),
        before=before,
        after=after,
        grace=draft.duration([0, 5, 60]),
        buffers=draft.new_name("buffers"),
        **_stores(draft),
    )


def _stores(draft: Draft) -> dict[str, Any]:
    """Where the join keeps its records, and whether they have changelogs."""
    options: dict[str, Any] = {}
    if draft.chance(10):
        sides = draft.choose([("left", "right"), ("left",), ("right",)])
        options["places"] = {side: draft.choose(["memory", "disk"]) for side in sides}
    elif draft.chance(6):
        # Of stores of suppliers Kafka Streams keeps changelogs, whatever is said.
        options["logged"] = False
    return options
