"""Runbooks have the parts that people look for; that the commands in them exist is checked for all pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted((ROOT / "docs" / "runbooks").glob("Millrace*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_runbook_says_what_it_means_how_to_see_it_and_what_to_do(page: Path) -> None:
    assert re.findall(r"^## (.*)$", page.read_text(), re.MULTILINE) == [
        "What it means",
        "How to see it",
        "What to do",
    ]
