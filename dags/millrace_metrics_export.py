"""Export of the metrics that no process serves."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, AssetOrTimeSchedule, CronTriggerTimetable, Param

from millrace_airflow.operations_asset import OPERATIONS
from millrace_airflow.operators import MillraceExportMetricsOperator

with DAG(
    dag_id="millrace_metrics_export",
    schedule=AssetOrTimeSchedule(timetable=CronTriggerTimetable("*/5 * * * *", timezone="UTC"), assets=[OPERATIONS]),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["millrace"],
    doc_md="""
### Export metrics
Works out what no process serves (results of operations, recovery times of drills, savepoints, changelogs, transactions
of the broker, lag, the estimated recovery time) for every deployed application, and hands it to Prometheus: to a
Pushgateway, or to a text file that node_exporter reads. Runs every five minutes and after each operation. The series of
applications that are gone disappear.

It fails where parts could not be had, a broker that is away for example; everything else is exported all the same.
""",
    params={
        "pushgateway": Param(
            os.environ.get("MILLRACE_PUSHGATEWAY", ""),
            type="string",
            title="Pushgateway",
            description="Address, for example http://pushgateway:9091. Empty writes to the text file.",
        ),
        "text_file": Param(
            "",
            type="string",
            title="Text file",
            description="File that is replaced. Empty takes prometheus/exported.prom of the installation.",
        ),
    },
):
    MillraceExportMetricsOperator(
        task_id="export",
        pushgateway="{{ params.pushgateway }}",
        text_file="{{ params.text_file }}",
        execution_timeout=timedelta(minutes=10),
    )
