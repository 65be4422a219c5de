"""Report what a deployment would meet."""

from __future__ import annotations

from airflow.sdk import DAG

from millrace_airflow.dag_parts import application_param, dag_arguments, flag_param
from millrace_airflow.operators import MillracePreflightOperator

with DAG(
    dag_id="millrace_preflight",
    schedule=None,
    max_active_runs=4,
    tags=["millrace"],
    doc_md="""
### Upgrade preflight
Compares the specification as it is now with what ran last and with what the broker has: which stores and internal
topics stay, change, start empty or would be lost; which topics are missing; limits, replication, transactions, disk;
and for which of that a deployment would be refused. It changes nothing.
""",
    params={
        "application": application_param(),
        "fail_when_refused": flag_param("Fail when refused", "Otherwise it only reports.", default=True),
    },
    **dag_arguments(),
):
    MillracePreflightOperator(
        task_id="preflight",
        application="{{ params.application }}",
        fail_when_refused="{{ params.fail_when_refused }}",
    )
