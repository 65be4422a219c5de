"""Pages outside docs/ lead somewhere; those in it are checked where the site is built."""

from __future__ import annotations

import re

import pytest

from tests.unit.project.pages import ROOT


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md"])
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text()):
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 120
