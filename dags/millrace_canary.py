"""Canaries: a clone of an application runs a new version beside it, is compared with it, promoted or dropped."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from millrace_airflow.dag_parts import (
    application_param,
    dag_arguments,
    dry_run_param,
    flag_param,
    reason_param,
    text_param,
)
from millrace_airflow.operators.canary import ACTIONS, MillraceCanaryOperator

with DAG(
    dag_id="millrace_canary",
    schedule=None,
    max_active_runs=1,
    tags=["millrace", "operations"],
    doc_md="""
### Canary
*start* takes a savepoint of the application and restores it into a clone, `<application>-canary`, which runs the new
specification on the same input and writes to topics of its own. *compare* fails where the two differ, and lists what.
*promote* makes the new specification the application's, and rolls it back if it is not healthy in time. *drop* deletes
the clone with its topics, group and stores, and nothing of the application.
""",
    params={
        "application": application_param(),
        "action": Param(
            "compare", type="string", enum=list(ACTIONS), title="Action", description="What to do with its canary."
        ),
        "spec": text_param("New specification", "To start: a file on the workers' host, not that of config/apps."),
        "every_record": flag_param("Every record", "To compare: count every record, not only each key's last value."),
        "dry_run": dry_run_param(default=True),
        "reason": reason_param("asked for in Airflow"),
    },
    **dag_arguments(),
):
    MillraceCanaryOperator(
        task_id="canary",
        application="{{ params.application }}",
        action="{{ params.action }}",
        spec="{{ params.spec or '' }}",
        every_record="{{ params.every_record }}",
        dry_run="{{ params.dry_run }}",
        reason="{{ params.reason }}",
    )
