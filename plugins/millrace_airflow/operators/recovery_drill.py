"""The operator of recovery drills."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from millrace.errors import MillraceError
from millrace.operations import Action, Outcome
from millrace_airflow.applications import applications
from millrace_airflow.hooks.millrace import MillraceHook
from millrace_airflow.operators.applications import ALL
from millrace_airflow.operators.base import MillraceActionOperator, failure


class MillraceRecoveryDrillOperator(MillraceActionOperator):
    """Kills the worker of a task and measures how long it takes until the task commits again.

    A drill is never repeated by a retry: what it measures is one recovery.

    Args:
        task: name of the task; empty takes any; templated.
        timeout_s: longest time until it commits again, seconds; templated.
        kwargs: see :class:`~millrace_airflow.operators.base.MillraceActionOperator`; ``application`` is one with
            ``production: false``, or ``all`` of them.
    """

    template_fields: Sequence[str] = (*MillraceActionOperator.template_fields, "task", "timeout_s")
    ui_color = "#f5d5cf"

    def __init__(
        self, *, application: str = ALL, task: str = "", timeout_s: float | str = 300.0, **kwargs: Any
    ) -> None:
        super().__init__(application=application, **{"retries": 0, **kwargs})
        self.task = task
        self.timeout_s = timeout_s

    def act(self, hook: MillraceHook, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Drill it."""
        names = [self.application] if self.application != ALL else _not_for_production(hook)
        self.log.info("applications: %s", ", ".join(names) or "none is deployed that is not for production")
        drilled, results, problems = 0, {}, []
        for name in names:
            try:
                outcome = self._drill(hook, name)
            except MillraceError as error:
                if self.application != ALL:
                    raise
                # What does not run, or has no input, cannot be drilled today; the others are.
                self.log.warning("%s was not drilled: %s", name, error)
                continue
            if outcome.action is Action.NOT_RECOVERED:
                problems.append(f"{name}: {outcome.text}")
            drilled += not outcome.dry_run
            results[name] = dict(outcome.results.get("drill", {}))
        if problems:
            raise failure(
                "; ".join(problems)[:2000],
                "read the driver's log and runbook MillraceRecoveryObjectiveAtRisk: a task that does not come back has "
                "to be found here, not in production",
                is_final=True,
            )
        self.log.info("What happened: %d of %d applications were drilled.", drilled, len(names))
        self.log.info("What to do: nothing more; the times are exported as metrics.")
        return results

    def _drill(self, hook: MillraceHook, name: str) -> Outcome:
        outcome = hook.recovery_drill(
            name,
            task=self.task,
            timeout_s=float(self.timeout_s),
            reason=self.reason,
            dry_run=self.is_dry,
            progress=self.log_line,
        )
        self.log.info("%s: %s, %s", name, outcome.action, outcome.text)
        return outcome


def _not_for_production(hook: MillraceHook) -> list[str]:
    deployed = set(hook.home.deployed())
    return [name for name, spec in applications(hook.home).items() if not spec.production and name in deployed]
