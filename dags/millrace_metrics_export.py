"""Export of the metrics that no process serves."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, AssetOrTimeSchedule

from millrace_airflow.assets import OPERATIONS
from millrace_airflow.dag_parts import dag_arguments, schedule
from millrace_airflow.operators import MillraceExportMetricsOperator

every = schedule("metrics_export", "*/5 * * * *", at_once=True)

with DAG(
    dag_id="millrace_metrics_export",
    schedule=AssetOrTimeSchedule(timetable=every, assets=[OPERATIONS]) if every else [OPERATIONS],
    max_active_runs=1,
    tags=["millrace", "scheduled"],
    doc_md="""
### Export metrics
Works out what no process serves (results of operations, recovery times of drills, savepoints, changelogs, transactions
of the broker, lag, the estimated recovery time) for every deployed application, and hands it to Prometheus: to the
Pushgateway that the variable `MILLRACE_PUSHGATEWAY` of the workers' environment names, without one to the file
`prometheus/exported.prom` of the installation, which node_exporter reads. Runs every five minutes and after each
operation. The series of applications that are gone disappear.

It fails where parts could not be had, a broker that is away for example; everything else is exported all the same.
""",
    **dag_arguments(),
):
    MillraceExportMetricsOperator(
        task_id="export",
        execution_timeout=timedelta(minutes=10),
    )
