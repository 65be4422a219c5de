"""Suppression in generated scenarios."""

from __future__ import annotations

from typing import Any

from tests.parity.generating.draft import Draft, Kind, operator
from tests.parity.generating.windowed_tables import keys_are_read, steps_above


def _no_history(draft: Draft) -> bool:
    """Tables with history cannot be suppressed."""
    return all("history" not in step for step in draft.steps)


@operator(Kind.TABLE, when=_no_history)
def _until_time_limit(draft: Draft, on: str) -> None:
    buffer: dict[str, Any] = {}
    if draft.chance(40):
        buffer = {"records": draft.choose([3, 2, 1]), "full": "emit"}
    draft.add("suppress", Kind.TABLE, on=on, name=draft.new_name("held"), limit=draft.duration([0, 5, 20]), **buffer)


@operator(Kind.WINDOWED_TABLE, when=_no_history)
def _until_windows_close(draft: Draft, on: str) -> None:
    # Behind a join by a foreign key Kafka Streams finds no windows.
    is_foreign = any(step.get("op") == "foreign_key_join" for step in steps_above(draft, on))
    if is_foreign or not keys_are_read(draft, on):
        return
    draft.add("suppress", Kind.WINDOWED_TABLE, on=on, name=draft.new_name("held"))
