"""The time that an operation may take, as it is written on the command line."""

from __future__ import annotations

import pytest
import typer

from millrace.cli.audit import seconds


@pytest.mark.parametrize(("text", "expected"), [("90s", 90), ("10m", 600), ("1.5h", 5400)])
def test_a_budget_is_a_number_and_a_unit(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["10", "m", "0s", "-5m", "1d"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="no duration"):
        seconds(text)
