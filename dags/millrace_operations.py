"""Carry on, or give up, an operation that was killed or has failed."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from millrace_airflow.dag_parts import application_param, dag_arguments, dry_run_param, reason_param
from millrace_airflow.operators import MillraceOperationsOperator
from millrace_airflow.operators.operations import ABANDON, RESUME

with DAG(
    dag_id="millrace_operations",
    schedule=None,
    max_active_runs=4,
    tags=["millrace", "operations"],
    doc_md="""
### Unfinished operations
Reset, restoration, compaction, savepoint and replay are journaled step by step. One that was killed or has failed keeps
others from beginning until it is resumed or given up. Clearing its task resumes it; this DAG does the same for an
operation of anybody, the command line included.

*Resume* goes on at the step that was not completed. *Abandon* gives it up: what was done stays done.
""",
    params={
        "application": application_param(),
        "action": Param(
            RESUME,
            type="string",
            enum=[RESUME, ABANDON],
            title="Action",
            description="Carry the operation on, or give it up.",
        ),
        "dry_run": dry_run_param(default=True),
        "reason": reason_param("given up in Airflow"),
    },
    **dag_arguments(),
):
    MillraceOperationsOperator(
        task_id="operations",
        **{name: f"{{{{ params.{name} }}}}" for name in ("application", "action", "dry_run", "reason")},
    )
