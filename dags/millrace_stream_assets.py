"""The progress of streams as events of assets."""

from __future__ import annotations

from airflow.sdk import DAG

from millrace_airflow.assets import STREAMS
from millrace_airflow.dag_parts import application_param, dag_arguments, schedule
from millrace_airflow.operators import MillraceApplicationsOperator, MillraceStreamAssetsOperator

with DAG(
    dag_id="millrace_stream_assets",
    schedule=schedule("stream_assets", "*/5 * * * *", at_once=True),
    max_active_runs=1,
    tags=["millrace", "scheduled"],
    doc_md="""
### Streams as assets
Every 5 minutes (`MILLRACE_SCHEDULE_STREAM_ASSETS` is another cron expression), each output topic of the applications
that run here and that has got more since gets an event, with its offsets in `extra`. Where nothing has moved nothing is
emitted. A batch DAG is scheduled on it with `schedule=[stream_asset("fraud-detection", "fraud-alerts")]`.
""",
    params={"application": application_param(with_all=True)},
    **dag_arguments(),
):
    chosen = MillraceApplicationsOperator(task_id="applications", application="{{ params.application }}")
    # Airflow asks a mapped task for its outlets before it is made.
    MillraceStreamAssetsOperator.partial(
        task_id="emit", map_index_template="{{ task.application }}", outlets=[STREAMS]
    ).expand(application=chosen.output)
