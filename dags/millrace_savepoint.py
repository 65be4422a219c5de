"""Take savepoints: those that are due, and by hand."""

from __future__ import annotations

from airflow.sdk import DAG

from millrace_airflow.assets import OPERATIONS
from millrace_airflow.dag_parts import (
    application_param,
    dag_arguments,
    dry_run_param,
    flag_param,
    number_param,
    reason_param,
    schedule,
    text_param,
)
from millrace_airflow.operators import MillraceApplicationsOperator, MillraceSavepointOperator

with DAG(
    dag_id="millrace_savepoint",
    schedule=schedule("savepoint", "*/10 * * * *"),
    max_active_runs=1,
    tags=["millrace", "operations", "scheduled"],
    doc_md="""
### Take a savepoint
Keeps the state and the progress of an application at one moment. A running application only holds its batches while
files are linked; a stopped one is taken as it lies.

The schedule takes those that are due: applications that run and whose specification has `savepoints.interval_s`. Then
it deletes the savepoints that the specification does not keep (`keep_count`, `keep_s`); the newest always stays.
By hand, any application can be chosen at any time. `millrace_restore` brings a savepoint back.
""",
    params={
        "application": application_param(with_all=True),
        "dry_run": dry_run_param(default=False),
        "name": text_param("Name", "Of the savepoint of one application; empty takes the time."),
        "verify": flag_param("Verify", "Read all files of the savepoint again and compare them."),
        "prune": flag_param("Delete expired ones", "As the specification says.", default=True),
        "timeout_s": number_param("Longest time of the driver's part, seconds", "Not longer.", default=600, minimum=1),
        "reason": reason_param("taken in Airflow"),
    },
    **dag_arguments(retries=2),
):
    chosen = MillraceApplicationsOperator(
        task_id="applications", application="{{ params.application }}", only_due_savepoints=True
    )
    MillraceSavepointOperator.partial(
        # Airflow asks a mapped task for its outlets before it is made.
        outlets=[OPERATIONS],
        task_id="savepoint",
        map_index_template="{{ task.application }}",
        dry_run="{{ params.dry_run }}",
        name="{{ params.name or '' }}",
        verify="{{ params.verify }}",
        prune="{{ params.prune }}",
        timeout_s="{{ params.timeout_s }}",
        reason="{{ params.reason }}",
    ).expand(application=chosen.output)
