"""Calls of client libraries that nothing here may make, since they can end the process or keep a core busy."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
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


def found_in(folder: str, find: Callable[[str], Iterator[tuple[int, str]]], *, leave_out: Path) -> list[str]:
    """What a search of sources finds in the files of a folder, but for one of them."""
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    return [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in files
        if path != leave_out
        for line, name in find(path.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize("folder", FOLDERS)
def test_nothing_asks_the_admin_client_for_committed_offsets(folder: str) -> None:
    assert found_in(folder, uses, leave_out=Path(__file__).resolve()) == []


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


def clients_with_own_certificates(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of each client that goes to servers directly and reads all authorities' certificates again."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            if given.get("trust_env") == "False" and given.get("verify") != "tls_context()":
                yield node.lineno, ast.unparse(node.func)


@pytest.mark.parametrize("folder", ["demo", "jobs", "plugins"])
def test_http_clients_share_what_they_trust(folder: str) -> None:
    assert found_in(folder, clients_with_own_certificates, leave_out=ROOT / "jobs" / "millrace" / "tls.py") == []


def test_a_client_with_certificates_of_its_own_would_be_found() -> None:
    source = "httpx.get(url, trust_env=False)\nhttpx.Client(\n trust_env=False,\n verify=tls_context(),\n)"
    assert list(clients_with_own_certificates(source)) == [(1, "httpx.get")]


def sparse_admin_clients(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of each admin client without :func:`millrace.kafka.clients.admin_settings`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("AdminClient"):
            settings = " ".join(ast.unparse(argument) for argument in node.args)
            if "base_settings" in settings:
                yield node.lineno, ast.unparse(node.func)


@pytest.mark.parametrize("folder", ["demo", "jobs", "plugins"])
def test_admin_clients_leave_the_cores_to_others_while_a_broker_is_away(folder: str) -> None:
    assert found_in(folder, sparse_admin_clients, leave_out=Path(__file__).resolve()) == []


def test_a_sparse_admin_client_would_be_found() -> None:
    source = "AdminClient(admin_settings(servers))\nadmin.AdminClient({**base_settings(servers), 'error_cb': note})"
    assert list(sparse_admin_clients(source)) == [(2, "admin.AdminClient")]
