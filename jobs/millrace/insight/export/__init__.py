"""Metrics that no process serves: worked out from files, the broker and the driver, and handed to Prometheus."""

from millrace.insight.export.export import ApplicationExport, ExportReport, export_metrics
from millrace.insight.export.targets import MetricsTarget, Pushgateway, TextFile

__all__ = [
    "ApplicationExport",
    "ExportReport",
    "MetricsTarget",
    "Pushgateway",
    "TextFile",
    "export_metrics",
]
