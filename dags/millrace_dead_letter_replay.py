"""Send dead-letter records back."""

from __future__ import annotations

from airflow.sdk import DAG

from millrace_airflow.dag_parts import (
    application_param,
    dag_arguments,
    dry_run_param,
    flag_param,
    reason_param,
    text_param,
)
from millrace_airflow.operators import MillraceReplayOperator

TEXTS = ("since", "until", "error", "topic", "letters")
OTHERS = ("application", "dry_run", "to_source_partition", "force", "reason")

with DAG(
    dag_id="millrace_dead_letter_replay",
    schedule=None,
    max_active_runs=4,
    tags=["millrace", "operations"],
    doc_md="""
### Replay dead-letter records
Sends dead-letter records back to the topics they were read from, with their bytes, key, headers and
timestamp: each exactly once, in a transaction with the mark that it was sent. By default all that were not sent before.
The application may run meanwhile.

**The dry run is on by default**: it logs which dead-letter records would go where.
""",
    params={
        "application": application_param(),
        "dry_run": dry_run_param(default=True),
        "since": text_param("Since", "Records from this ISO time on, UTC."),
        "until": text_param("Until", "Records before this ISO time, UTC."),
        "error": text_param("Error", "Part of the exception's name, or of the reason of the drop."),
        "topic": text_param("Topic", "Where the records were read."),
        "letters": text_param("Letters", "PARTITION:OFFSET of some, separated by commas."),
        "to_source_partition": flag_param("To the source partition", "Not that of the key."),
        "force": flag_param("Again", "Also what was sent back before."),
        "reason": reason_param("replayed in Airflow"),
    },
    **dag_arguments(retries=2),
):
    MillraceReplayOperator(
        task_id="replay",
        **{name: f"{{{{ params.{name} or '' }}}}" for name in TEXTS},
        **{name: f"{{{{ params.{name} }}}}" for name in OTHERS},
    )
