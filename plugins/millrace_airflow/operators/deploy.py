"""Operators that deploy an application and see to its supervision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from millrace.install.spec import UpgradeMode
from millrace.operations import Outcome
from millrace_airflow.hooks.millrace import MillraceHook
from millrace_airflow.operators.base import MillraceActionOperator, failure
from millrace_airflow.values import is_true

FROM_SPECIFICATION = "as the specification says"
UPGRADE_MODES = tuple(mode.value for mode in UpgradeMode)


class MillraceDeployOperator(MillraceActionOperator):
    """Creates the topics, runs the preflight, launches the driver and waits until it is ready.

    Idempotent: a retry, or a second run, finds the driver that runs and starts none, and goes on with an upgrade in
    steps whose task died. A killed deployment leaves the driver that it launched; ``millrace_stop`` ends it.

    Args:
        upgrade_mode: ``last-state``, ``savepoint`` or ``stateless``; anything else takes what the specification says;
            templated.
        rollback_on_failure: whether the last good specification is launched again when the new one is not healthy in
            time; the task fails then; templated.
        ready_timeout_s: how long to wait until it is ready, seconds; 0 takes the limit of the specification; templated.
        force: whether it is launched again although nothing differs; templated.
        kwargs: see :class:`~millrace_airflow.operators.base.MillraceActionOperator`.
    """

    template_fields: Sequence[str] = (
        *MillraceActionOperator.template_fields,
        "upgrade_mode",
        "rollback_on_failure",
        "ready_timeout_s",
        "force",
    )
    ui_color = "#d6f0d0"
    another_try_helps = True
    goes_by = None  # its steps say what differs

    def __init__(
        self,
        *,
        upgrade_mode: str = FROM_SPECIFICATION,
        rollback_on_failure: bool | str = True,
        ready_timeout_s: float | str = 0,
        force: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.upgrade_mode = upgrade_mode
        self.rollback_on_failure = rollback_on_failure
        self.ready_timeout_s = ready_timeout_s
        self.force = force

    def act(self, hook: MillraceHook, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Deploy it."""
        timeout_s = float(self.ready_timeout_s) or None
        outcome = hook.deploy(
            self.application,
            reason=self.reason,
            upgrade_mode=UpgradeMode(self.upgrade_mode) if self.upgrade_mode in UPGRADE_MODES else None,
            rollback_on_failure=is_true(self.rollback_on_failure),
            ready_timeout_s=timeout_s,
            force=is_true(self.force),
            dry_run=self.is_dry,
            progress=self.log_line,
        )
        check_launch(self, outcome)
        observation = None if self.is_dry else hook.wait_until_ready(self.application, timeout_s=timeout_s)
        if observation is not None:
            self.log.info("%s: %s", observation.reason, observation.text)
        self.log_outcome(outcome, "nothing more; the task supervise sees to it that it is looked after")
        return {**outcome.summary(), **({"observation": observation.summary()} if observation else {})}


def check_launch(task: MillraceActionOperator, outcome: Outcome) -> None:
    """Log the steps of a launch, and fail where it did not come to a good end.

    Raises:
        AirflowFailException: the new specification does not run. Another try would find the good one running, or fail
            in the same way.
    """
    for step in outcome.steps:
        task.log_line(step)
    if outcome.action.leaves_new_one_down:
        raise failure(
            f"{task.application}: {outcome.action}: {outcome.text}",
            "correct the specification or what it needs, and deploy it again",
            is_final=True,
        )


class EnsureSupervisedOperator(TriggerDagRunOperator):  # type: ignore[misc]
    """Triggers the application's supervise DAG unless a run of it is active: that one sees the new driver by itself.

    Args:
        application: name of the application; templated.
        dry_run: ``True`` skips; templated.
    """

    template_fields: Sequence[str] = (*TriggerDagRunOperator.template_fields, "application", "dry_run")

    def __init__(self, *, application: str, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(trigger_dag_id=f"millrace_supervise_{application}", **kwargs)
        self.application = application
        self.dry_run = dry_run

    def execute(self, context: Context) -> None:
        """Trigger it."""
        if is_true(self.dry_run):
            raise AirflowSkipException("a dry run starts nothing to supervise")
        active = context["ti"].get_dr_count(dag_id=self.trigger_dag_id, states=["running", "queued"])
        if active:
            raise AirflowSkipException(f"{self.trigger_dag_id} has an active run, which goes on")
        super().execute(context)
