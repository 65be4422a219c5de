"""Writes the generated pages into docs/."""

from __future__ import annotations

from scripts.references.pages import DOCS, PAGES

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())
