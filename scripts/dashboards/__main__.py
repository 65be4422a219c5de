"""Writes config/grafana/dashboards/*.json."""

from __future__ import annotations

from pathlib import Path

from scripts.dashboards.all import DASHBOARDS
from scripts.dashboards.build import to_json

DIRECTORY = Path(__file__).resolve().parents[2] / "config" / "grafana" / "dashboards"

if __name__ == "__main__":
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    for dashboard in DASHBOARDS:
        (DIRECTORY / f"{dashboard.uid}.json").write_text(to_json(dashboard))
