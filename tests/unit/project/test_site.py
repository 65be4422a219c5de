"""The documentation as a site."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FETCHED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^\s>]*")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built strictly: a link or anchor that leads nowhere, and a page that the navigation leaves out, are errors."""
    directory = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(directory)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return directory


def test_every_page_is_in_the_site_and_can_be_searched_for(site: Path) -> None:
    index = (site / "search" / "search_index.json").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        address = str(page.relative_to(ROOT / "docs").with_suffix("")).removesuffix("index").strip("/")
        assert (site / address / "index.html").is_file(), page
        assert f'"location":"{address}{"/" if address else ""}"' in index, page


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    """No network is needed: not for fonts, scripts, styles or pictures."""
    for page in site.rglob("*.html"):
        assert FETCHED.findall(page.read_text()) == [], page


def test_what_a_list_says_is_a_list(site: Path) -> None:
    """Markdown that needs an empty line before a list shows it as a paragraph without one."""
    for page in (ROOT / "docs").rglob("*.md"):
        lines = page.read_text().splitlines()
        for before, line in itertools.pairwise(lines):
            begins = re.match(r"(?:- |1\. )", line)
            assert not begins or not before or re.match(r"(?:- |\d+\. |\s)", before), f"{page.name}: {line}"
