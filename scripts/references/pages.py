"""The generated pages by the names of their files in docs/."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from scripts.references import command_line, configuration, dags, dsl, environment, metrics, runbooks, specification

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES: Mapping[str, Callable[[], str]] = {
    "command-line.md": command_line.page,
    "configuration.md": configuration.page,
    "dags.md": dags.page,
    "dsl-reference.md": dsl.page,
    "environment.md": environment.page,
    "metrics.md": metrics.page,
    "runbooks/index.md": runbooks.page,
    "specification.md": specification.page,
}
