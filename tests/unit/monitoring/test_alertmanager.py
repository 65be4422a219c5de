"""The configuration of Alertmanager, looked at by amtool."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.unit.monitoring.test_rules import alerts

CONFIG = Path(__file__).parents[3] / "config" / "alertmanager" / "alertmanager.yml"


def _amtool(*arguments: str) -> str:
    done = subprocess.run(["amtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_amtool_accepts_it() -> None:
    assert "SUCCESS" in _amtool("check-config", str(CONFIG))


@pytest.mark.parametrize("name", alerts())
def test_critical_alerts_go_to_whoever_is_on_call_and_the_others_to_the_team(name: str) -> None:
    labels = alerts()[name]["labels"]
    given = [f"alertname={name}", "application_id=orders", *(f"{key}={value}" for key, value in labels.items())]  # type: ignore[attr-defined]
    receiver = _amtool("config", "routes", "test", f"--config.file={CONFIG}", *given).strip()
    assert receiver == ("on-call" if labels["severity"] == "critical" else "team")  # type: ignore[index]


def test_every_alert_that_routes_and_inhibitions_name_exists() -> None:
    document = yaml.safe_load(CONFIG.read_text())
    named = set(re.findall(r"Millrace\w+", str(document)))
    # A route may name a family of alerts by the begin of its name.
    assert all(any(alert.startswith(name) for alert in alerts()) for name in named)


def test_inhibitions_hold_within_one_application() -> None:
    assert all(rule["equal"] == ["application_id"] for rule in yaml.safe_load(CONFIG.read_text())["inhibit_rules"])
