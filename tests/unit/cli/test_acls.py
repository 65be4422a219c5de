from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Cli


@pytest.fixture
def fraud(tmp_path: Path) -> str:
    file = tmp_path / "fraud.yaml"
    file.write_text(
        "name: fraud\nmodule: apps.fraud_detection:build\n"
        "config: {bootstrap.servers: 'localhost:1', sasl.username: me, sasl.password: '${PASSWORD:-}'}\n"
    )
    return str(file)


def test_the_list_has_a_line_for_each_resource(cli: Cli, fraud: str) -> None:
    result = cli("acls", fraud)
    assert result.code == 0
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert lines[0] == "User:me"
    assert "topic payments Read, DescribeConfigs run read input" in lines
    assert any(line.startswith("transactional-id fraud-* Write run ") for line in lines)


def test_json_and_commands_say_the_same(cli: Cli, fraud: str) -> None:
    document = json.loads(cli("acls", fraud, "--for", "run", "--format", "json").out)
    assert document["principal"] == "User:me"
    assert document["acls"][0] == {
        "resource": "topic",
        "name": "payments",
        "prefixed": False,
        "operations": ["Read", "DescribeConfigs"],
        "purpose": "run",
        "reason": "read input",
    }
    commands = cli("acls", fraud, "--for", "run", "--format", "commands").out.splitlines()
    assert len(commands) == len(document["acls"])
    assert commands[0].endswith(
        "--allow-principal User:me --operation Read --operation DescribeConfigs --topic payments"
    )
