"""Recovery drills: kills a task's worker of applications that are not for production, and measures the recovery."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG, Param

from millrace_airflow.applications import applications
from millrace_airflow.operators.recovery_drill import ALL, MillraceRecoveryDrillOperator

names = [name for name, spec in applications().items() if not spec.production]

with DAG(
    dag_id="millrace_recovery_drill",
    schedule="30 3 * * 1",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["millrace"],
    doc_md="""
### Recovery drill
Kills (SIGKILL) the worker process of one task, waits until the task commits again in another one, and appends the time
that this took to `run/<application>/drills.jsonl`, from where it is exported as a metric.

Only applications with `production: false` in their specification can be chosen, and input must arrive. *all* takes
those that are healthy; what cannot be drilled is logged. It fails when a task did not recover in time.
""",
    params={
        "application": Param(
            ALL,
            type="string",
            enum=[ALL, *names],
            title="Application",
            description="One that is not for production.",
        ),
        "task": Param("", type=["null", "string"], title="Task", description="For example 0_1; empty takes any."),
        "timeout_s": Param(
            300, type="number", minimum=1, title="Limit, seconds", description="Longest time until it commits again."
        ),
        "dry_run": Param(False, type="boolean", title="Dry run", description="Only log what would be killed."),
    },
):
    MillraceRecoveryDrillOperator(
        task_id="drill",
        application="{{ params.application }}",
        task="{{ params.task or '' }}",
        timeout_s="{{ params.timeout_s }}",
        dry_run="{{ params.dry_run }}",
        reason="drilled by {{ run_id }}",
    )
