"""The rules of Prometheus, run by promtool."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.unit.monitoring.rules.cases import CASES, Case

ROOT = Path(__file__).parents[3]
RULES = ROOT / "config" / "prometheus" / "rules"
RUNBOOKS = ROOT / "docs" / "runbooks"


def alerts() -> dict[str, dict[str, object]]:
    groups = yaml.safe_load((RULES / "alerts.yml").read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def _group(case: Case) -> dict[str, object]:
    return {
        "name": case.text,
        "interval": "1m",
        "external_labels": {"docs": "http://docs"},
        "input_series": [{"series": name, "values": values} for name, values in case.series().items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in names],
            }
            for minute, names in case.firing.items()
        ],
    }


def test_each_case_raises_the_alerts_that_it_names_and_no_other(tmp_path: Path) -> None:
    document = {
        "rule_files": [str(path) for path in sorted(RULES.glob("*.yml"))],
        "evaluation_interval": "1m",
        "tests": [_group(case) for case in CASES],
    }
    path = tmp_path / "cases.yml"
    path.write_text(yaml.safe_dump(document))
    done = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout


def test_promtool_accepts_the_configuration_and_its_rules() -> None:
    done = subprocess.run(
        ["promtool", "check", "config", str(RULES.parent / "prometheus.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout


@pytest.mark.parametrize("name", alerts())
def test_each_alert_has_a_runbook_a_severity_and_cases_in_which_it_fires_and_does_not(name: str) -> None:
    rule = alerts()[name]
    assert (RUNBOOKS / f"{name}.md").is_file()
    assert rule["annotations"]["runbook_url"] == f"{{{{ $externalLabels.docs }}}}/runbooks/{name}/"  # type: ignore[index]
    assert rule["labels"]["severity"] in {"critical", "warning"}  # type: ignore[index]
    assert rule["labels"]["source"] in {"driver", "export"}  # type: ignore[index]
    assert any(name in names for case in CASES for names in case.firing.values())
    # The minute before it fires, or a case of its own that comes near.
    assert any(name not in names for case in CASES for names in case.firing.values())


def test_there_is_no_runbook_without_an_alert() -> None:
    assert {path.stem for path in RUNBOOKS.glob("Millrace*.md")} == set(alerts())
