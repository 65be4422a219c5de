"""Airflow's own metrics, as the panels of its dashboard name them."""

from __future__ import annotations

import re

from scripts.dashboards.airflow import AIRFLOW
from tests.airflow.conftest import Platform, dag_ids
from tests.waiting import eventually, wait_for

END = re.compile(r"_(?:sum|count)$")


def test_airflow_sends_what_its_dashboard_shows(platform: Platform) -> None:
    shown = {
        END.sub("", name)
        for panel in AIRFLOW.panels
        for query in panel.queries
        for name in re.findall(r"\bairflow_[a-z_]+", query.expr)
    }
    assert len(shown) > 8
    wait_for(lambda: "millrace_reconcile" in dag_ids(platform.client), limit_s=240)
    assert platform.run("millrace_reconcile", "for-metrics") == "success"
    eventually(lambda: shown - {*platform.metrics.labels}, set(), limit_s=300)
    assert platform.metrics.labels["airflow_ti_finish"] >= {"dag_id", "task_id", "state"}
