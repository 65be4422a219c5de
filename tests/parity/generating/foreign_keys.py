"""Joins of tables by a foreign key in generated scenarios."""

from __future__ import annotations

from tests.parity.functions import JOINERS
from tests.parity.generating.draft import Draft, Kind, operator
from tests.parity.generating.functions import KEY_MAPPERS


@operator(Kind.TABLE)
def _foreign_key_join(draft: Draft, on: str) -> None:
    draft.add(
        "foreign_key_join",
        Kind.TABLE,
        on=on,
        **{"with": draft.choose(draft.of(Kind.TABLE))},
        kind=draft.choose(["inner", "left"]),
        by=draft.choose(KEY_MAPPERS),
        fn=draft.choose(JOINERS),
        **draft.store(40),
    )
