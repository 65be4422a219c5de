from __future__ import annotations

import ast
from pathlib import Path

import millrace
from millrace.config import StreamsConfig
from millrace.install.connection import ADMIN_TIMEOUT_S, admin_of


def test_an_administrator_has_the_application_s_settings_and_the_one_limit() -> None:
    settings = {"application.id": "app", "bootstrap.servers": "127.0.0.1:1", "admin.client.id": "me"}
    admin = admin_of(StreamsConfig.from_mapping(settings))
    assert (admin.timeout_s, admin.settings) == (ADMIN_TIMEOUT_S, {"client.id": "me"})


def test_no_operation_makes_an_administrator_of_its_own() -> None:
    root = Path(millrace.__file__).parent
    makers = {
        str(path.relative_to(root))
        for package in ("install", "launch", "operations", "supervise", "insight")
        for path in (root / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"KafkaAdmin", "AdminClient"}
    }
    assert makers == {"install/connection.py"}
