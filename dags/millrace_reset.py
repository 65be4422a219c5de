"""Reset an application: it begins again."""

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
from millrace_airflow.operators import MillraceResetOperator
from millrace_airflow.operators.reset import PLACES

with DAG(
    dag_id="millrace_reset",
    schedule=None,
    max_active_runs=4,
    tags=["millrace", "operations"],
    doc_md="""
### Reset an application
Sets its offsets, deletes its internal topics (those of its topology, never by a prefix), removes its stores. Everything
is decided and checked before anything changes, and checked again afterwards.

**The dry run is on by default**: it logs what would be done. A reset that was killed or has failed goes on when its
task is cleared. The application does not run afterwards: `millrace_deploy` starts it.
""",
    params={
        "application": application_param(),
        "dry_run": dry_run_param(default=True),
        "to": Param("earliest", type="string", enum=list(PLACES), title="Input topics go to", description="Where."),
        "to_value": text_param("Value of the place", "An offset, ISO time (UTC), ISO duration ago, or a shift."),
        "input_topics": text_param("Input topics", "Separated by commas; none means all. Others stay where they are."),
        "internal_topics": text_param("Internal topics to delete", "Separated by commas; none means all."),
        "output_topics": text_param("Output topics to empty", "Separated by commas; none means none."),
        "empty_dead_letters": flag_param("Empty the dead-letter topic", "Delete its records."),
        "delete_savepoints": flag_param("Delete its savepoints", "They are kept otherwise."),
        "stop": flag_param("Stop it first", "Otherwise the reset of a running application is refused."),
        "force": flag_param("Force", "Pass over members and drivers elsewhere that are dead but not missed yet."),
        "reason": reason_param("reset in Airflow"),
    },
    **dag_arguments(retries=2),
):
    MillraceResetOperator(
        task_id="reset",
        **{
            name: f"{{{{ params.{name} or '' }}}}"
            for name in ("to_value", "input_topics", "internal_topics", "output_topics")
        },
        **{
            name: f"{{{{ params.{name} }}}}"
            for name in (
                "application",
                "dry_run",
                "to",
                "empty_dead_letters",
                "delete_savepoints",
                "stop",
                "force",
                "reason",
            )
        },
    )
