"""Compare stores with their changelogs."""

from __future__ import annotations

from airflow.sdk import DAG

from millrace_airflow.dag_parts import application_param, dag_arguments, number_param, schedule, text_param
from millrace_airflow.operators import MillraceApplicationsOperator, MillraceAuditOperator

with DAG(
    dag_id="millrace_state_audit",
    schedule=schedule("state_audit", "45 3 * * *"),
    max_active_runs=1,
    max_active_tasks=1,
    tags=["millrace", "operations", "scheduled"],
    doc_md="""
### Audit the state
Compares each store with a replay of its changelog, beside the running application: batches wait only while the files
are linked. It changes nothing, and fails where something differs, with the keys in its log. Every night it looks at
a sample of the keys of every application that runs here.
""",
    params={
        "application": application_param(with_all=True),
        "sample": number_param(
            "Share of the keys", "Above 0, up to 1.", default=0.1, minimum=0, exclusiveMinimum=0, maximum=1
        ),
        "budget_s": number_param("Longest time of one application, seconds", "The rest is skipped.", default=1800),
        "stores": text_param("Stores", "Names separated by commas; none means all."),
    },
    **dag_arguments(retries=2),
):
    chosen = MillraceApplicationsOperator(task_id="applications", application="{{ params.application }}")
    MillraceAuditOperator.partial(
        task_id="audit",
        map_index_template="{{ task.application }}",
        sample="{{ params.sample }}",
        budget_s="{{ params.budget_s }}",
        stores="{{ params.stores or '' }}",
    ).expand(application=chosen.output)
