"""Calls of client libraries that nothing here may make, since they can end the process or take seconds of it."""

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


def clients_with_own_certificates(source: str) -> Iterator[int]:
    """Lines of clients that go to servers directly and read the certificates of all authorities again."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            if given.get("trust_env") == "False" and given.get("verify") != "tls_context()":
                yield node.lineno


@pytest.mark.parametrize("folder", ["demo", "jobs", "plugins"])
def test_http_clients_share_what_they_trust(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    own = Path("jobs/millrace/tls.py")
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in files
        if path.relative_to(ROOT) != own
        for line in clients_with_own_certificates(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_a_client_with_certificates_of_its_own_would_be_found() -> None:
    source = "httpx.get(url, trust_env=False)\nhttpx.Client(\n trust_env=False,\n verify=tls_context(),\n)"
    assert list(clients_with_own_certificates(source)) == [1]
