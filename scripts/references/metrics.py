"""Every metric."""

from __future__ import annotations

from collections.abc import Iterable

from millrace.metrics.definitions import METRICS, STANDBY_METRICS, MetricDefinition, MetricKind
from millrace.metrics.exported import EXPORTED_METRICS
from scripts.references.markdown import GENERATED, table

_INTRODUCTION = f"""\
# Metrics

The driver serves these at `/metrics`. Every series has the label `application_id`. Counters begin at 0 when the driver
starts, so query them with `rate` or `increase`; a series ends when its task or partition is gone. Latencies and
lateness are in seconds and never negative: lateness is stream time (the record itself included) minus the record's
timestamp.

A lag is measured to the **last stable offset**: the end of what a reader of committed records may read. It is 0 also
while an open transaction of whoever writes the input keeps that from moving. `millrace_consumer_high_watermark` has the
other end, where the log ends, and `millrace_consumer_held_back_seconds` for how long the application has waited between
the two; `millrace status`, the page and the alert `MillraceReaderHeldBack` say so, too. Markers of transactions take
offsets and count as records here, not in `millrace_consumer_group_lag_records`.

{GENERATED}

"""
_STANDBY = """\
## Standby

`millrace standby --metrics-port` serves these, for each task that it copies. Every series has the label
`application_id`; it ends when the copy is given up.

"""
_EXPORTED = """\
## Exported

`millrace export-metrics` works these out, as no process serves them, and pushes them to a Pushgateway (a group for each
application) or writes them to a text file. Every series has the label `application_id`, and says how it was at the last
export; `millrace_export_timestamp_seconds` has when that was. The series of an application that is gone disappear with
the next export.

"""
_HEAD = ("metric", "type", "labels", "unit", "meaning", "Kafka Streams")


def page() -> str:
    """The reference page, Markdown."""
    buckets = [
        f"- `{metric.name}`: {', '.join(f'{bound:g}' for bound in metric.buckets)}"
        for metric in METRICS
        if metric.kind is MetricKind.HISTOGRAM
    ]
    parts = [
        _INTRODUCTION + _table(METRICS),
        _STANDBY + _table(STANDBY_METRICS),
        _EXPORTED + _table(EXPORTED_METRICS),
        "## Buckets of the histograms (upper bounds, seconds)\n\n" + "\n".join(buckets),
    ]
    return "\n\n".join(parts) + "\n"


def _table(metrics: Iterable[MetricDefinition]) -> str:
    return table(_HEAD, map(_row, metrics))


def _row(metric: MetricDefinition) -> tuple[str, ...]:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"`{metric.name}`", metric.kind, labels, metric.unit, metric.help, metric.counterpart or "none"
