"""What operations did, and whether supervision looks after the applications."""

from __future__ import annotations

from scripts.dashboards.model import APP, Dashboard, Kind, Panel, Query, Unit

OPERATIONS = Dashboard(
    uid="operations",
    title="Operations",
    text="Results and durations of operations, restarts, savepoints, and the export itself.",
    panels=(
        Panel(
            title="Operations by result",
            text="From the journals of the applications.",
            queries=(Query(f"sum by (application_id, operation, result) (millrace_operations{{{APP}}}) > 0"),),
            kind=Kind.TABLE,
            alert="MillraceOperationFailed",
        ),
        Panel(
            title="Duration of the latest operation",
            text="Of each kind, from begin to end; waits for a resume included.",
            queries=(Query(f"millrace_operation_last_duration_seconds{{{APP}}}", "{{application_id}} {{operation}}"),),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Time since the latest operation",
            text="Of each kind and result.",
            queries=(
                Query(
                    f"time() - millrace_operation_last_timestamp_seconds{{{APP}}}",
                    "{{application_id}} {{operation}} {{result}}",
                ),
            ),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Time since the driver was launched",
            text="It falls to 0 with each restart.",
            queries=(
                Query(f"time() - millrace_application_launched_timestamp_seconds{{{APP}}}", "{{application_id}}"),
            ),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Savepoints",
            text="In the repository, by state.",
            queries=(Query(f"millrace_savepoints{{{APP}}}", "{{application_id}} {{state}}"),),
        ),
        Panel(
            title="Duration of the export by part",
            text="Seconds of the last export. Changelogs and transactions take a Java process each.",
            queries=(Query(f"sum by (part) (millrace_export_duration_seconds{{{APP}}})", "{{part}}"),),
            unit=Unit.SECONDS,
            kind=Kind.STACKED,
        ),
        Panel(
            title="Parts of the export that fail",
            text="Their series are absent.",
            queries=(Query(f"count by (part) (millrace_export_part_ok{{{APP}}} == 0) or vector(0)", "{{part}}"),),
            alert="MillraceMetricsExportIncomplete",
        ),
    ),
)
