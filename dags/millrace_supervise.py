"""One DAG per file in config/apps that looks after the application's job."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from millrace_airflow.applications import applications
from millrace_airflow.notifications import MillraceNotifier
from millrace_airflow.operators import MillraceSuperviseOperator

for name, spec in applications().items():
    with DAG(
        dag_id=f"millrace_supervise_{name}",
        schedule=None,
        catchup=False,
        max_active_runs=1,
        tags=["millrace", name],
        doc_md=f"""
### Supervise {name}
{spec.description}

The task is deferred while the job runs: it holds no worker slot. It watches the process, the health endpoint and the
progress of batches, restarts with backoff up to the limit of the specification, and logs why.

- Mark it failed or successful: the job is stopped. Clear it: exactly one job goes on.
- `millrace_stop` ends it in success; `millrace_deploy` starts it again.
- A changed specification comes into force within seconds. Changed code does not: the log and the page say that there is
  some, and `millrace_deploy` goes to it. A restart launches the code as it is then.
- A triggerer or an Airflow that dies does not touch the job; it is found again afterwards.
""",
    ):
        # A retry only adopts the job, so for a task that never ends there must always be one left. What a retry cannot
        # help, such as the restart limit, fails at once.
        MillraceSuperviseOperator(
            task_id="supervise",
            application=name,
            retries=10_000,
            retry_delay=timedelta(seconds=5),
            on_failure_callback=[MillraceNotifier()],
        )
