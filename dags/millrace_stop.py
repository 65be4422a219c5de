"""Stop an application as planned."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from millrace_airflow.applications import applications
from millrace_airflow.operators import MillraceStopOperator

names = list(applications())

with DAG(
    dag_id="millrace_stop",
    schedule=None,
    catchup=False,
    max_active_runs=4,
    tags=["millrace"],
    doc_md="""
### Stop an application
Asks the driver to finish its batches, commit and end; after `health.stop_timeout_s` it is ended by force, which loses
nothing either. The supervising task ends in success. Only `millrace_deploy` starts the application again.
""",
    params={
        "application": Param(
            names[0] if names else None,
            type="string",
            enum=names,
            title="Application",
            description="One of the files in config/apps.",
        ),
        "dry_run": Param(False, type="boolean", title="Dry run", description="Only log the plan."),
        "reason": Param("stopped by hand", type="string", title="Reason", description="Goes to the journal."),
    },
):
    MillraceStopOperator(
        task_id="stop",
        application="{{ params.application }}",
        dry_run="{{ params.dry_run }}",
        reason="{{ params.reason }}",
    )
