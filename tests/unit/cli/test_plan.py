"""``millrace plan``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Cli

LOAD = ("--records-per-second", "5000", "--record-bytes", "120", "--keys", "1000")


@pytest.fixture
def fraud(tmp_path: Path) -> str:
    file = tmp_path / "apps" / "fraud.yaml"
    file.write_text(
        "name: fraud\nmodule: apps.fraud_detection:build\nconfig: {bootstrap.servers: 'localhost:1'}\n"
        "topics: [{name: payments, partitions: 4}]\n"
    )
    return "fraud"


def test_the_report_shows_topics_disk_transactions_and_recovery(cli: Cli, fraud: str) -> None:
    result = cli("plan", fraud, *LOAD)
    assert result.code == 0, result.err
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert any(line.startswith("fraud-spent-per-window-changelog compact,delete 1 day, 0:06:00 4 ") for line in lines)
    assert any(
        line.startswith("spent-per-window window rocksdb fraud-spent-per-window-changelog 2,000 ") for line in lines
    )
    assert "transactions/s 40.0" in lines
    assert [line.split()[0] for line in lines if line.startswith("with")] == ["without", "with"]


def test_json_has_the_same_numbers(cli: Cli, fraud: str) -> None:
    document = json.loads(cli("plan", fraud, *LOAD, "--json").out)
    assert document["stores"][0]["size"]["entries"] == 2_000
    assert document["topics"][0]["retention_ms"] == 360_000 + 86_400_000
    assert document["eos"]["transactions_per_second"] == 40


def test_a_topic_without_known_partitions_is_an_error_with_the_option_to_give(
    cli: Cli, tmp_path: Path, fraud: str
) -> None:
    file = tmp_path / "apps" / "fraud.yaml"
    file.write_text(file.read_text().replace("payments, partitions: 4", "elsewhere"))
    result = cli("plan", fraud, *LOAD)
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "Remedy: declare them under `topics` in the specification, or give --partitions payments=N" in result.err
    assert cli("plan", fraud, *LOAD, "--partitions", "payments=2").code == 0


def test_at_least_once_is_said(cli: Cli, tmp_path: Path, fraud: str) -> None:
    file = tmp_path / "apps" / "fraud.yaml"
    file.write_text(file.read_text().replace("{boot", "{processing.guarantee: at_least_once, boot"))
    assert "off: processing.guarantee is at_least_once" in cli("plan", fraud, *LOAD).out


@pytest.mark.parametrize("given", ["payments", "payments=0", "=3", "payments=x"])
def test_malformed_partitions_are_a_wrong_command_line(cli: Cli, fraud: str, given: str) -> None:
    assert cli("plan", fraud, *LOAD, "--partitions", given).code == 2


def test_a_load_that_never_catches_up_is_refused_in_one_line(cli: Cli, fraud: str) -> None:
    result = cli("plan", fraud, *LOAD, "--utilization", "1")
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "never catch up" in result.err
