"""What the pages tell people to type exists: commands with their options, targets of make, DAGs, metrics."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from millrace.cli.application import app
from millrace.metrics import EXPORTED_METRICS, METRICS, STANDBY_METRICS
from tests.unit.project.pages import PAGES, ROOT, blocks, title

METRIC_NAMES = {metric.name for metric in METRICS + STANDBY_METRICS + EXPORTED_METRICS}
DAGS = {path.stem for path in (ROOT / "dags").glob("*.py")}
OTHERS = {"millrace_airflow", "millrace_off_peak", "millrace_webhook", "millrace_alert_mail", "millrace_conn_id"}


def command(words: list[str]) -> tuple[Any, list[str]]:
    """The command that the words begin with, and the rest of them."""
    found, rest = typer.main.get_command(app), list(words)
    while hasattr(found, "commands") and rest:
        assert rest[0] in found.commands, f"millrace {' '.join(words)}"
        found = found.commands[rest.pop(0)]
    return found, rest


def lines(page: Path) -> list[str]:
    """The lines of shell, without comments."""
    text = "\n".join([*blocks(page, "sh"), *blocks(page, "")])
    return [re.sub(r"\s*(#.*|&)$", "", line).strip() for line in text.splitlines()]


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_a_command_in_a_block_can_be_typed(page: Path) -> None:
    for line in lines(page):
        if line.startswith("millrace "):
            # What another command or a file gets is cut off.
            found, arguments = command(shlex.split(re.sub(r"[\[\]]| [|>] .*", "", line))[1:])
            # Unknown options, missing arguments and wrong numbers are errors; only files are the reader's.
            try:
                found.make_context(line, arguments)
            except typer.BadParameter as error:
                if "does not exist" not in error.format_message():
                    raise
        elif line.startswith("make "):
            targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
            assert line.split()[1] in targets, line


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_a_command_in_the_text_exists_with_its_options(page: Path) -> None:
    for text in re.findall(r"`millrace ([a-z][^`]*)`", page.read_text()):
        verb, *others = re.split(r" \| ", text)
        words = verb.split()
        found, rest = command(words)
        known = {"--help"}
        for parameter in getattr(found, "params", ()):
            known |= {*parameter.opts, *parameter.secondary_opts}
        assert {word.strip("[]") for word in rest if word.startswith("--")} <= known, text
        for other in others:
            # `dlq list | show`: several commands of one group.
            command([*words[:1], other.split()[0]])


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_dags_and_metrics_that_are_named_exist(page: Path) -> None:
    for name in re.findall(r"`(millrace_[a-z_]+)(?=[`{*<])", page.read_text()):
        known = name.startswith("millrace_supervise") or name in METRIC_NAMES | DAGS | OTHERS
        assert known or any(metric.startswith(name) for metric in METRIC_NAMES), name
