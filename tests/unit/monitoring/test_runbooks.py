"""Runbooks tell people to do what can be done."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from millrace.cli.application import app

ROOT = Path(__file__).parents[3]
PAGES = sorted((ROOT / "docs" / "runbooks").glob("*.md"))


def _verbs() -> set[str]:
    """All commands, as ``deploy`` or ``savepoint create``."""
    command = typer.main.get_command(app)
    found = set()
    for name, each in command.commands.items():  # type: ignore[attr-defined]
        found.add(name)
        found |= {f"{name} {inner}" for inner in getattr(each, "commands", {})}
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_runbook_names_commands_and_dags_that_exist(page: Path) -> None:
    text, verbs = page.read_text(), _verbs()
    groups = {verb.partition(" ")[0] for verb in verbs if " " in verb}
    for command in re.findall(r"`millrace ([a-z][^`]*)`", text):
        words = command.split()
        verb = " ".join(words[:2]) if words[0] in groups else words[0]
        assert verb in verbs, f"millrace {command}"
    dags = {path.stem for path in (ROOT / "dags").glob("*.py")}
    for name in re.findall(r"DAGs? `(millrace_[a-z_]+)", text):
        assert name.rstrip("_") in dags | {"millrace_supervise"}, name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_runbook_says_what_it_means_how_to_see_it_and_what_to_do(page: Path) -> None:
    assert re.findall(r"^## (.*)$", page.read_text(), re.MULTILINE) == [
        "What it means",
        "How to see it",
        "What to do",
    ]
