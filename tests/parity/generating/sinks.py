"""Ends of generated scenarios: topics of their own, or chosen for each record, whose partitions may be chosen too."""

from __future__ import annotations

from typing import Any

from tests.parity.generating.draft import Draft, Kind, operator


def write(draft: Draft, on: str) -> None:
    """Writes a stream to a topic of its own, or to topics that are chosen by its records."""
    windowed = draft.kind(on) is Kind.WINDOWED_STREAM
    step: dict[str, Any] = {"op": "to", "on": on}
    if draft.chance(15):
        step["by"] = "window start" if windowed else draft.choose(_choosing(draft))
    else:
        step["topic"] = draft.new_name("out")
        if not windowed and draft.chance(10):
            step["partitioner"] = True
    draft.steps.append(step)


def _choosing(draft: Draft) -> list[str]:
    """What may choose topics: nothing that would close a circle of topics."""
    return ["key", "context"] if _reads_chosen_topic(draft) else ["key", "context", "even or odd"]


def _reads_chosen_topic(draft: Draft) -> bool:
    return any(step.get("topics") == ["even"] for step in draft.steps)


@operator(Kind.STREAM, weight=1, when=lambda draft: not _reads_chosen_topic(draft))
def _through_a_chosen_topic(draft: Draft, on: str) -> None:
    """Another part of the topology reads one of the topics that a sink chooses."""
    draft.steps.append({"op": "to", "on": on, "by": "even or odd"})
    draft.add("stream", Kind.STREAM, topics=["even"])
