"""What Airflow does for the applications."""

from __future__ import annotations

from scripts.dashboards.model import APP, Dashboard, Kind, Panel, Query, Unit

AIRFLOW = Dashboard(
    uid="airflow",
    title="Airflow",
    text="Whether Airflow looks after the applications: supervision, reconciles, and what its DAGs did.",
    panels=(
        Panel(
            title="Applications without a probe for five minutes",
            text="They should run, and neither a supervising task nor a reconcile has looked, as of the last export.",
            queries=(
                Query(
                    f"count((millrace_export_timestamp_seconds{{{APP}}} - on (application_id) "
                    f"millrace_supervision_last_look_timestamp_seconds{{{APP}}} > 300) and on (application_id) "
                    f"millrace_application_wanted{{{APP}}} == 1) or vector(0)"
                ),
            ),
            kind=Kind.NUMBER,
            width=12,
            alert="MillraceSupervisorGone",
            red_above=1,
        ),
        Panel(
            title="Age of the export",
            text="Of the application that was exported longest ago; its DAG runs every five minutes.",
            queries=(Query(f"max(time() - millrace_export_timestamp_seconds{{{APP}}})"),),
            kind=Kind.NUMBER,
            unit=Unit.SECONDS,
            width=12,
            alert="MillraceMetricsExportStale",
            red_above=900,
        ),
        Panel(
            title="Time since a supervisor looked",
            text="At the moment of the export: seconds by a supervising task, two minutes by reconciles.",
            queries=(
                Query(
                    f"millrace_export_timestamp_seconds{{{APP}}} - on (application_id) "
                    f"millrace_supervision_last_look_timestamp_seconds{{{APP}}}",
                    "{{application_id}}",
                ),
            ),
            unit=Unit.SECONDS,
            alert="MillraceSupervisorGone",
        ),
        Panel(
            title="Wanted and well",
            text="1 where the application should run, and where it does.",
            queries=(
                Query(f"millrace_application_wanted{{{APP}}}", "{{application_id}} wanted"),
                Query(f"millrace_application_healthy{{{APP}}}", "{{application_id}} well"),
            ),
            alert="MillraceApplicationDown",
        ),
        Panel(
            title="Restarts in a row",
            text="By supervising tasks and reconciles.",
            queries=(Query(f"millrace_application_restarts{{{APP}}}", "{{application_id}}"),),
        ),
        Panel(
            title="Operations that failed or were not finished",
            text="By DAGs or by hand; see the dashboard Operations.",
            queries=(
                Query(
                    f'sum by (application_id, operation) (millrace_operations{{{APP},result=~"failed|unfinished"}})',
                    "{{application_id}} {{operation}}",
                ),
            ),
            alert="MillraceOperationFailed",
        ),
        Panel(
            title="Heartbeats of Airflow's processes",
            text="Per second, from Airflow's own metrics. One that falls to 0 is a process that has died or hangs.",
            queries=tuple(
                Query(f"sum(rate(airflow_{process}_heartbeat[5m]))", process.replace("_", " "))
                for process in ("scheduler", "triggerer", "dag_processor")
            ),
            unit=Unit.PER_SECOND,
        ),
        Panel(
            title="Tasks that ended, by state",
            text="Of this platform's DAGs, within 15 minutes.",
            queries=(Query('sum by (state) (increase(airflow_ti_finish{dag_id=~"millrace_.*"}[15m]))', "{{state}}"),),
            kind=Kind.STACKED,
        ),
        Panel(
            title="Tasks in the executor",
            text="Queued tasks that do not become running ones wait for slots.",
            queries=(
                Query("sum(airflow_executor_running_tasks)", "running"),
                Query("sum(airflow_executor_queued_tasks)", "queued"),
                Query("sum(airflow_executor_open_slots)", "open slots"),
            ),
        ),
        Panel(
            title="Deferred tasks and triggers",
            text="A supervising task is deferred, and its trigger runs: as many as there are supervised applications.",
            queries=(
                Query("sum(airflow_pool_deferred_slots)", "deferred tasks"),
                Query("sum(airflow_triggers_running)", "running triggers"),
            ),
        ),
        Panel(
            title="DAG files that cannot be imported",
            text="An application whose supervise DAG is missing is often here; see the log of the dag processor.",
            queries=(Query("max(airflow_dag_processing_import_errors)"),),
            kind=Kind.NUMBER,
            red_above=1,
        ),
        Panel(
            title="Duration of the scheduler's loop",
            text="Mean of five minutes. Tasks start late when it takes seconds.",
            queries=(
                Query(
                    "sum(rate(airflow_scheduler_scheduler_loop_duration_sum[5m]))"
                    " / sum(rate(airflow_scheduler_scheduler_loop_duration_count[5m]))",
                    "scheduler",
                ),
            ),
            unit=Unit.SECONDS,
        ),
    ),
)
