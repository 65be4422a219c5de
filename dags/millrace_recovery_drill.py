"""Recovery drills: kills a task's worker of applications that are not for production, and measures the recovery."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from millrace_airflow.applications import applications
from millrace_airflow.dag_parts import dag_arguments, dry_run_param, number_param, schedule, text_param
from millrace_airflow.operators.applications import ALL
from millrace_airflow.operators.recovery_drill import MillraceRecoveryDrillOperator

names = [name for name, spec in applications().items() if not spec.production]

with DAG(
    dag_id="millrace_recovery_drill",
    schedule=schedule("recovery_drill", "30 3 * * 1"),
    max_active_runs=1,
    tags=["millrace", "operations", "scheduled"],
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
        "task": text_param("Task", "For example 0_1; empty takes any."),
        "timeout_s": number_param("Limit, seconds", "Longest time until it commits again.", default=300, minimum=1),
        "dry_run": dry_run_param(default=False),
    },
    **dag_arguments(),
):
    MillraceRecoveryDrillOperator(
        task_id="drill",
        application="{{ params.application }}",
        task="{{ params.task or '' }}",
        timeout_s="{{ params.timeout_s }}",
        dry_run="{{ params.dry_run }}",
        reason="drilled by {{ run_id }}",
    )
