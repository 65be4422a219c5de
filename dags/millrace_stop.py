"""Stop an application as planned, and perhaps suspend it."""

from __future__ import annotations

from airflow.sdk import DAG

from millrace_airflow.dag_parts import application_param, dag_arguments, dry_run_param, flag_param, reason_param
from millrace_airflow.operators import MillraceStopOperator

with DAG(
    dag_id="millrace_stop",
    schedule=None,
    max_active_runs=4,
    tags=["millrace"],
    doc_md="""
### Stop an application
Asks the driver to finish its batches, commit and end; after `health.stop_timeout_s` it is ended by force, which loses
nothing either. The supervising task ends in success. Only `millrace_deploy` starts the application again.

*Suspend* also writes `state: suspended` into its specification: then no deployment starts it either, until that says
`state: running` again.
""",
    params={
        "application": application_param(),
        "suspend": flag_param("Suspend", "Also write `state: suspended` into its specification."),
        "dry_run": dry_run_param(default=False),
        "reason": reason_param("stopped by hand"),
    },
    **dag_arguments(),
):
    MillraceStopOperator(
        task_id="stop",
        application="{{ params.application }}",
        dry_run="{{ params.dry_run }}",
        reason="{{ params.reason }}",
        suspend="{{ params.suspend }}",
    )
