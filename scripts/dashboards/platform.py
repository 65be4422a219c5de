"""The platform at a glance."""

from __future__ import annotations

from scripts.dashboards.model import Dashboard, Kind, Panel, Query, Unit

PLATFORM = Dashboard(
    uid="platform",
    title="Platform",
    text="All applications at a glance: which of them needs an operator to look.",
    by_application=False,
    panels=(
        Panel(
            title="Should run",
            text="Applications that the last operation asked to run.",
            queries=(Query("sum(millrace_application_wanted)"),),
            kind=Kind.NUMBER,
            width=4,
        ),
        Panel(
            title="Run and are well",
            text="Of those, the applications whose driver lives, answers and makes progress, as of the last export.",
            queries=(Query("sum(millrace_application_healthy)"),),
            kind=Kind.NUMBER,
            width=4,
            alert="MillraceApplicationDown",
        ),
        Panel(
            title="Scrapes that fail",
            text="Drivers that should be there and do not answer Prometheus.",
            queries=(Query('count(up{job="millrace-applications"} == 0) or vector(0)'),),
            kind=Kind.NUMBER,
            width=4,
            red_above=1,
        ),
        Panel(
            title="Records per second",
            text="Input records processed by all applications.",
            queries=(Query("sum(millrace:processed:rate5m)"),),
            kind=Kind.NUMBER,
            unit=Unit.PER_SECOND,
            width=4,
        ),
        Panel(
            title="Records behind",
            text="Committed records that no application has processed yet, markers not counted, as of the last export.",
            queries=(Query("sum(millrace_consumer_group_lag_records)"),),
            kind=Kind.NUMBER,
            width=4,
        ),
        Panel(
            title="Age of the export",
            text="Of the application that was exported longest ago.",
            queries=(Query("max(time() - millrace_export_timestamp_seconds)"),),
            kind=Kind.NUMBER,
            unit=Unit.SECONDS,
            width=4,
            alert="MillraceMetricsExportStale",
            red_above=900,
        ),
        Panel(
            title="Alerts that fire",
            text="Each has a page among the runbooks.",
            queries=(
                Query(
                    'sum by (alertname, application_id, severity) (ALERTS{alertstate="firing",alertname=~"Millrace.*"})'
                ),
            ),
            kind=Kind.TABLE,
            width=12,
        ),
        Panel(
            title="Records per second by application",
            text="Input records processed.",
            queries=(Query("sum by (application_id) (millrace:processed:rate5m)", "{{application_id}}"),),
            unit=Unit.PER_SECOND,
        ),
        Panel(
            title="Records behind by application",
            text="As the drivers see it; a partition that is 1 behind may only have a marker.",
            queries=(Query("sum by (application_id) (millrace:lag_beyond_markers:sum)", "{{application_id}}"),),
            alert="MillraceLagGrowing",
        ),
        Panel(
            title="Latency from record to commit, p99",
            text="From the timestamp of a record to the commit of its results, over five minutes.",
            queries=(Query("max by (application_id) (millrace:e2e_latency_seconds:p99_5m)", "{{application_id}}"),),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Restarts in a row",
            text="It falls to 0 once a driver has run for long enough.",
            queries=(Query("max by (application_id) (millrace_application_restarts)", "{{application_id}}"),),
        ),
        Panel(
            title="Dead-letter records in 15 minutes",
            text="Records that went to dead-letter topics.",
            queries=(Query("sum by (application_id) (millrace:dead_letters:increase15m)", "{{application_id}}"),),
            alert="MillraceDeadLetters",
        ),
    ),
)
