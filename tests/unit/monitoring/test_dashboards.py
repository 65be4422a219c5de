"""Dashboards: the JSON is what the code gives, and queries name what exists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from millrace.metrics import EXPORTED_METRICS, METRICS, STANDBY_METRICS, MetricKind
from scripts.dashboards.all import DASHBOARDS
from scripts.dashboards.build import to_json
from scripts.dashboards.model import Dashboard
from tests.unit.monitoring.test_rules import RULES, alerts

DIRECTORY = Path(__file__).parents[3] / "config" / "grafana" / "dashboards"
OF_PROMETHEUS = {"application_id", "job", "instance", "le"}
AIRFLOW = Path(__file__).with_name("recorded") / "airflow.prom"
"""What statsd_exporter 0.31 served of Airflow 3.3.2 with `config/airflow`, two lines of each name."""
NAME = re.compile(r"\b(?:millrace(?:_[a-z0-9_]+|:[a-z0-9_:]+)|airflow_[a-z_]+|up|ALERTS)\b")
SELECTOR = re.compile(r"\b(millrace[_:][a-z0-9_:]+|airflow_[a-z_]+|up|ALERTS)\{([^}]*)\}")
GROUPING = re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([a-z_, ]*)\)")


def _recorded() -> dict[str, str]:
    groups = yaml.safe_load((RULES / "recording.yml").read_text())["groups"]
    return {rule["record"]: rule["expr"] for group in groups for rule in group["rules"]}


def _labels() -> dict[str, set[str]]:
    """The labels of every series that a query may name."""
    known = {
        "up": {"job", "instance", "application_id"},
        "ALERTS": {"alertname", "alertstate", "severity", "source", "subtopology", "operation", "topic", "part"},
    }
    for metric in METRICS + STANDBY_METRICS + EXPORTED_METRICS:
        names = [metric.name]
        if metric.kind is MetricKind.HISTOGRAM:
            names = [f"{metric.name}{end}" for end in ("_bucket", "_sum", "_count")]
        known |= {name: {*metric.labels} for name in names}
    # Not by the client's parser, which gives counters another name.
    for name, labels in re.findall(r"^(airflow_[a-z_]+)(?:\{(.*)\})?", AIRFLOW.read_text(), re.MULTILINE):
        known.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    # The outermost grouping of a recording rule is what its series have.
    for name, expr in _recorded().items():
        found = re.search(r"by \(([a-z_, ]*)\)", expr)
        assert found, name
        known[name] = {label.strip() for label in found[1].split(",")} - {"le"}
    return {name: labels | OF_PROMETHEUS for name, labels in known.items()}


def _queries() -> dict[str, str]:
    queries = {f"record {name}": expr for name, expr in _recorded().items()}
    queries |= {f"alert {name}": str(rule["expr"]) for name, rule in alerts().items()}
    for dashboard in DASHBOARDS:
        for panel in dashboard.panels:
            for number, query in enumerate(panel.queries):
                queries[f"{dashboard.uid}: {panel.title} {number}"] = query.expr
    return queries


@pytest.mark.parametrize("where", _queries())
def test_every_query_names_series_that_exist_by_labels_that_they_have(where: str) -> None:
    expr, known = _queries()[where], _labels()
    named = set(NAME.findall(expr))
    assert named, expr
    assert named <= set(known), named - set(known)
    for name, selected in SELECTOR.findall(expr):
        used = set(re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)", selected))
        assert used <= known[name], (name, used - known[name])
    for labels in GROUPING.findall(expr):
        used = {label.strip() for label in labels.split(",") if label.strip()}
        assert used <= set().union(*(known[name] for name in named)), labels


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.uid)
def test_the_json_is_what_the_code_gives(dashboard: Dashboard) -> None:
    path = DIRECTORY / f"{dashboard.uid}.json"
    assert path.read_text() == to_json(dashboard), "run: python -m scripts.dashboards"


def test_there_is_no_json_without_code() -> None:
    assert {path.stem for path in DIRECTORY.glob("*.json")} == {dashboard.uid for dashboard in DASHBOARDS}


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.uid)
def test_every_panel_says_what_it_shows_and_links_to_a_runbook_that_exists(dashboard: Dashboard) -> None:
    document = json.loads(to_json(dashboard))
    panels = document["panels"]
    assert len(panels) == len(dashboard.panels)
    assert len({panel["title"] for panel in panels}) == len(panels)
    for panel, made in zip(dashboard.panels, panels, strict=True):
        assert made["description"].endswith(".")
        assert made["fieldConfig"]["defaults"]["unit"] == panel.unit
        assert made["gridPos"]["x"] + made["gridPos"]["w"] <= 24
        assert {target["expr"] for target in made["targets"]} == {query.expr for query in panel.queries}
        assert not panel.alert or panel.alert in alerts()
    variables = {variable["name"] for variable in document["templating"]["list"]}
    for query in (query.expr for panel in dashboard.panels for query in panel.queries):
        assert set(re.findall(r"\$(\w+)", query)) <= variables


def test_every_alert_is_explained_by_a_panel() -> None:
    linked = {panel.alert for dashboard in DASHBOARDS for panel in dashboard.panels}
    assert set(alerts()) <= linked
