"""Names of functions for generated scenarios; those that fail only where failures are handled."""

from __future__ import annotations

from tests.parity.functions import AGGREGATES
from tests.parity.generating.draft import Draft

HANDLED = "continue after processing errors"
KEY_MAPPERS = ("same", "user", "amount mod 3")


def predicates(draft: Draft) -> tuple[str, ...]:
    """Of filters and branches."""
    return _with_failing(draft, "always", "amount>10", "amount even", "has amount", "key==a", "has key")


def value_mappers(draft: Draft) -> tuple[str, ...]:
    """Of streams."""
    return _with_failing(draft, "amount", "amount+1", "null if odd", "amount or -1", "key")


def aggregates(draft: Draft) -> list[str]:
    """Of streams."""
    return [fn for fn in AGGREGATES if HANDLED in draft.settings or "fails" not in fn]


def _with_failing(draft: Draft, *names: str) -> tuple[str, ...]:
    return (*names, "fails on 13") if HANDLED in draft.settings else names
