"""Restore a savepoint."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from millrace_airflow.applications import applications
from millrace_airflow.dag_parts import (
    dag_arguments,
    dry_run_param,
    flag_param,
    reason_param,
    savepoint_param,
    text_param,
)
from millrace_airflow.operators import MillraceRestoreOperator

with DAG(
    dag_id="millrace_restore",
    schedule=None,
    max_active_runs=4,
    tags=["millrace", "operations"],
    doc_md="""
### Restore a savepoint
Brings an application back to a savepoint: stores, changelogs, what waited between sub-topologies, offsets. Input from
then on is processed again, and its results are written again; the plan lists what is in the output topics since.
With another application under *Into* it makes a clone.

**The dry run is on by default**: it logs what would be done. A restoration that was killed or has failed goes on when
its task is cleared. The application does not run afterwards: `millrace_deploy` starts it.
""",
    params={
        "savepoint": savepoint_param(),
        "dry_run": dry_run_param(default=True),
        "into": Param(
            "", type="string", enum=["", *applications()], title="Into", description="A clone; empty: the same one."
        ),
        "stop": flag_param("Stop it first", "Otherwise a running application is refused."),
        "allow_dropped_stores": text_param("Stores that may be dropped", "Names separated by commas."),
        "allow_shared_outputs": text_param("Outputs that a clone may share", "Topics separated by commas."),
        "starts": text_param("Starts", "TOPIC=earliest, TOPIC=latest, TOPIC:PARTITION=OFFSET, separated by commas."),
        "reason": reason_param("restored in Airflow"),
    },
    **dag_arguments(retries=2),
):
    MillraceRestoreOperator(
        task_id="restore",
        savepoint="{{ params.savepoint }}",
        dry_run="{{ params.dry_run }}",
        into="{{ params.into }}",
        stop="{{ params.stop }}",
        allow_dropped_stores="{{ params.allow_dropped_stores or '' }}",
        allow_shared_outputs="{{ params.allow_shared_outputs or '' }}",
        starts="{{ params.starts or '' }}",
        reason="{{ params.reason }}",
    )
