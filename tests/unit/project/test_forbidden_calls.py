"""Calls of client libraries that nothing here may make, since they can end the process."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("dags", "demo", "jobs", "plugins", "scripts", "tests")
FORBIDDEN = frozenset({"list_consumer_group_offsets"})
"""Of the admin client: librdkafka's issue 5040. ``millrace.kafka.offsets.committed_offsets`` asks as a consumer."""


def uses(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of each use, also of one by its name in a string, as ``getattr`` takes it."""
    for node in ast.walk(ast.parse(source)):
        name = (
            node.attr
            if isinstance(node, ast.Attribute)
            else node.id
            if isinstance(node, ast.Name)
            else node.value
            if isinstance(node, ast.Constant)
            else None
        )
        if isinstance(name, str) and name in FORBIDDEN:
            yield getattr(node, "lineno", 0), name


@pytest.mark.parametrize("folder", FOLDERS)
def test_nothing_asks_the_admin_client_for_committed_offsets(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in files
        if path != Path(__file__).resolve()
        for line, name in uses(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "admin.client.list_consumer_group_offsets([1])",
        "ask = admin.list_consumer_group_offsets",
        'getattr(admin, "list_consumer_group_offsets")()',
    ],
)
def test_a_use_would_be_found(source: str) -> None:
    assert [name for _, name in uses(source)] == ["list_consumer_group_offsets"]
