"""Writes docs/metrics.md: ``python -m millrace.metrics.reference > docs/metrics.md``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from millrace.metrics.definitions import METRICS, MetricDefinition, MetricKind
from millrace.metrics.exported import EXPORTED_METRICS, STANDBY_METRICS

_INTRODUCTION = """\
# Metrics

The driver serves these at `/metrics`. Every series has the label `application_id`. Counters begin at 0 when the driver
starts, so query them with `rate` or `increase`; a series ends when its task or partition is gone. Latencies and
lateness are in seconds and never negative: lateness is stream time (the record itself included) minus the record's
timestamp.

This page is generated: `python -m millrace.metrics.reference > docs/metrics.md`.

| metric | type | labels | unit | meaning | Kafka Streams |
|---|---|---|---|---|---|
"""

_EXPORTED = """
## Exported

`millrace export-metrics` works these out and pushes them to a Pushgateway or writes them to text files, a group or file
for each application: what no process serves. All are gauges with the label `application_id`, as the last export found
them; `millrace_export_timestamp_seconds` says when that was. An export without an application removes its series.

| metric | labels | unit | meaning |
|---|---|---|---|
"""

_STANDBY = """
## Standby

`millrace standby --metrics-port` serves these.

| metric | labels | unit | meaning |
|---|---|---|---|
"""


def page() -> str:
    """The reference page, Markdown."""
    buckets = [
        f"- `{metric.name}`: {', '.join(f'{bound:g}' for bound in metric.buckets)}"
        for metric in METRICS
        if metric.kind is MetricKind.HISTOGRAM
    ]
    rows = "\n".join(map(_row, METRICS))
    return (
        f"{_INTRODUCTION}{rows}\n\n## Buckets of the histograms (upper bounds, seconds)\n\n" + "\n".join(buckets) + "\n"
        f"{_EXPORTED}{_short_rows(EXPORTED_METRICS)}\n{_STANDBY}{_short_rows(STANDBY_METRICS)}\n"
    )


def _short_rows(metrics: Sequence[MetricDefinition]) -> str:
    return "\n".join(f"| `{metric.name}` | {_labels(metric)} | {metric.unit} | {metric.help} |" for metric in metrics)


def _labels(metric: MetricDefinition) -> str:
    return ", ".join(f"`{label}`" for label in metric.labels) or "none"


def _row(metric: MetricDefinition) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    cells = (f"`{metric.name}`", metric.kind, labels, metric.unit, metric.help, metric.counterpart or "none")
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.stdout.write(page())
