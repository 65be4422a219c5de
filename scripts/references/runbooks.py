"""All alerts with their runbooks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from scripts.references.markdown import GENERATED, table

ROOT = Path(__file__).resolve().parents[2]
_INTRODUCTION = f"""\
# Runbooks

Each alert has a page that says what it means, how to see it and what to do. *Critical*: look now; *warning*: look
today.

{GENERATED}

"""


def page() -> str:
    """The list of the runbooks, Markdown."""
    return _INTRODUCTION + table(("alert", "severity", "what it means"), _rows()) + "\n"


def _rows() -> Iterator[tuple[str, ...]]:
    rules = yaml.safe_load((ROOT / "config" / "prometheus" / "rules" / "alerts.yml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            text = (ROOT / "docs" / "runbooks" / f"{rule['alert']}.md").read_text()
            meaning = text.partition("## What it means\n\n")[2].partition("\n\n")[0]
            yield f"[{rule['alert']}]({rule['alert']}.md)", rule["labels"]["severity"], meaning
