"""Deploy an application: topics, preflight, launch, wait until ready, supervise."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from millrace_airflow.dag_parts import application_param, dag_arguments, dry_run_param, flag_param, reason_param
from millrace_airflow.operators import EnsureSupervisedOperator, MillraceDeployOperator
from millrace_airflow.operators.deploy import FROM_SPECIFICATION, UPGRADE_MODES

with DAG(
    dag_id="millrace_deploy",
    schedule=None,
    # Deployments of several applications may run at once; those of one application wait for each other on its lock.
    max_active_runs=4,
    tags=["millrace"],
    doc_md="""
### Deploy an application
Creates its topics, checks everything that can be checked, stops what runs with an older specification, launches the
driver, waits until it is ready, and sees to it that `millrace_supervise_<application>` looks after it.

Where a changed specification is not healthy in time, the last good one is launched again (*Roll back*); the task fails
and says why, and supervision leaves the new one alone until its file changes or is deployed again. *Upgrade mode* says
what the change does with the state: `last-state` goes on with it, `savepoint` takes one first, which a rollback
restores where it has to, `stateless` begins with empty stores at the committed offsets of the inputs. Of a supervised
application, supervision brings a changed file into force within seconds, as `upgrade_mode` in it says: say it there.

Deploying what already runs changes nothing, unless its code has changed: the log names the keys of the specification,
the nodes, the files and the packages that differ from what was launched. *Force* launches it again without a
difference. Changed code is taken up by a deployment only; supervision says that there is some. A dry run logs the plan
and every check.
A failed check names its remedy in the log of `deploy`; what ran before still runs.
""",
    params={
        "application": application_param(),
        "dry_run": dry_run_param(default=False),
        "reason": reason_param("deployed by hand"),
        "upgrade_mode": Param(
            FROM_SPECIFICATION,
            type="string",
            enum=[FROM_SPECIFICATION, *UPGRADE_MODES],
            title="Upgrade mode",
            description="What a changed specification does with the state.",
        ),
        "rollback_on_failure": Param(
            True,
            type="boolean",
            title="Roll back",
            description="Launch the last good specification again when the new one is not healthy in time.",
        ),
        "ready_timeout_s": Param(
            0,
            type="number",
            minimum=0,
            title="Longest wait until ready, seconds",
            description="0 takes health.readiness_timeout_s of the specification.",
        ),
        "force": flag_param("Force", "Launch it again although nothing differs."),
    },
    **dag_arguments(),
):
    deploy = MillraceDeployOperator(
        task_id="deploy",
        application="{{ params.application }}",
        dry_run="{{ params.dry_run }}",
        reason="{{ params.reason }}",
        upgrade_mode="{{ params.upgrade_mode }}",
        rollback_on_failure="{{ params.rollback_on_failure }}",
        ready_timeout_s="{{ params.ready_timeout_s }}",
        force="{{ params.force }}",
    )
    supervise = EnsureSupervisedOperator(
        task_id="supervise", application="{{ params.application }}", dry_run="{{ params.dry_run }}"
    )
    deploy >> supervise
