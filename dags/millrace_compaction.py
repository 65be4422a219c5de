"""Compact the changelogs and stores of applications in off-peak hours."""

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
from millrace_airflow.operators import MillraceApplicationsOperator, MillraceCompactOperator

OFF_PEAK = "00:00-06:00"

with DAG(
    dag_id="millrace_compaction",
    schedule=schedule("compaction", "15 * * * *"),
    max_active_runs=1,
    # Compactions of several applications would take the broker's cleaner and the disks from each other.
    max_active_tasks=1,
    tags=["millrace", "operations", "scheduled"],
    doc_md=f"""
### Compact changelogs and stores
Has the broker clean changelogs with many superfluous records now, purges repartition topics up to what is committed,
and rewrites the files of stores, all beside the running application. The settings of topics that it lowers meanwhile
are put back whatever happens.

The schedule looks every hour. It works in the off-peak hours only: the Airflow variable `millrace_off_peak`, or
{OFF_PEAK} UTC without one. An application whose last compaction is younger than `least_interval_h` is left out, and
none goes on behind the end of the window. A run by hand begins at once, unless it is given hours.
""",
    params={
        "application": application_param(with_all=True),
        "dry_run": dry_run_param(default=False),
        "window": text_param("Off-peak hours", "As 22:00-06:00, UTC. Empty: those of the schedule, or none by hand."),
        "budget_s": number_param("Longest time of one application, seconds", "Not longer.", default=1800, minimum=10),
        "least_interval_h": number_param("Hours between two compactions", "Of scheduled runs.", default=20),
        "least_bytes": number_param("Least bytes", "Changelogs of fewer bytes are left alone.", default=1 << 20),
        "least_superfluous": number_param("Least share of superfluous records", "From 0 to 1.", default=0.5, maximum=1),
        "changelogs": flag_param("Clean changelogs", "By the broker.", default=True),
        "repartition_topics": flag_param("Purge repartition topics", "What is committed.", default=True),
        "stores": flag_param("Rewrite the files of stores", "In the background.", default=True),
        "reason": reason_param("compacted in Airflow"),
    },
    **dag_arguments(retries=2),
):
    chosen = MillraceApplicationsOperator(
        task_id="applications",
        application="{{ params.application }}",
        window="{{ params.window or '' }}",
        default_window=OFF_PEAK,
        least_interval_h="{{ params.least_interval_h }}",
        operation="compact",
    )
    MillraceCompactOperator.partial(
        # Airflow asks a mapped task for its outlets before it is made.
        outlets=[OPERATIONS],
        task_id="compact",
        map_index_template="{{ task.application }}",
        dry_run="{{ params.dry_run }}",
        budget_s="{{ params.budget_s }}",
        # A run by hand without hours has none.
        window="{{ params.window or (var.value.get('millrace_off_peak', '"
        + OFF_PEAK
        + "') if dag_run.run_type.rpartition('.')[2] == 'scheduled' else '') }}",
        least_bytes="{{ params.least_bytes | int }}",
        least_superfluous="{{ params.least_superfluous }}",
        changelogs="{{ params.changelogs }}",
        repartition_topics="{{ params.repartition_topics }}",
        stores="{{ params.stores }}",
        reason="{{ params.reason }}",
    ).expand(application=chosen.output)
