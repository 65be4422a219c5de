"""What the README and the pages of docs/ show: blocks of code, files by their names, commands."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def title(page: Path) -> str:
    """How a test calls the page."""
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    """The blocks of one language; ``""`` are those without."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [text for found, text in fenced if found == language]


def files(page: Path) -> dict[str, str]:
    """The blocks that a page calls files: the last name in code before a block that ends with a colon."""
    found = {}
    for before, text in re.findall(r"([^\n]*:)\n\n```\w+\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE):
        if names := re.findall(r"`([\w/]+\.\w+)`", before):
            found[names[-1]] = text
    return found
