"""Applications that cannot be built."""

from __future__ import annotations

from millrace.dsl import StreamsBuilder


def build_nothing(builder: StreamsBuilder) -> None:
    """Adds nothing."""


def build_failing(builder: StreamsBuilder) -> None:
    """Fails."""
    raise KeyError("account")
