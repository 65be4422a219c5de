"""The safety net: brings every deployed application to its desired state, also where supervision is paused."""

from __future__ import annotations

from airflow.sdk import DAG

from millrace_airflow.dag_parts import dag_arguments, dry_run_param, schedule
from millrace_airflow.operators import MillraceReconcileOperator

with DAG(
    dag_id="millrace_reconcile",
    schedule=schedule("reconcile", "*/2 * * * *", at_once=True),
    max_active_runs=1,
    tags=["millrace"],
    doc_md="""
### Reconcile all applications
Looks at every application that was deployed and does what is needed, once: restarts what died or hangs, changes what
runs to a changed specification, stops what is suspended. What is well, or was stopped as planned, is left alone.

It does the same as the supervising tasks, under the same lock, so both may run at any time.
It fails if an application reached its restart limit: read the log, correct the cause, and deploy.
""",
    params={"dry_run": dry_run_param(default=False)},
    **dag_arguments(),
):
    MillraceReconcileOperator(task_id="reconcile", dry_run="{{ params.dry_run }}")
