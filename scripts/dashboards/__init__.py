"""Grafana's dashboards as code: ``python -m scripts.dashboards`` writes config/grafana/dashboards/*.json."""
