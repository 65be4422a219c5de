"""The operator of recovery drills."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException

from millrace.errors import MillraceError
from millrace_airflow.applications import applications
from millrace_airflow.hooks.millrace import MillraceHook
from millrace_airflow.operators.applications import ALL
from millrace_airflow.values import is_true


class MillraceRecoveryDrillOperator(BaseOperator):  # type: ignore[misc]
    """Kills the worker of a task and measures how long it takes until the task commits again.

    A drill is never repeated by a retry: what it measures is one recovery.

    Args:
        application: name of an application with ``production: false``, or ``all`` of them; templated.
        task: name of the task; empty takes any; templated.
        timeout_s: longest time until it commits again, seconds; templated.
        reason: for the journal; templated.
        dry_run: ``True`` only logs what would be killed; templated.
        millrace_conn_id: see :class:`~millrace_airflow.hooks.millrace.MillraceHook`.
    """

    template_fields: Sequence[str] = ("application", "task", "timeout_s", "reason", "dry_run")
    ui_color = "#f5d5cf"

    def __init__(
        self,
        *,
        application: str = ALL,
        task: str = "",
        timeout_s: float | str = 300.0,
        reason: str = "drilled",
        dry_run: bool | str = False,
        millrace_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"retries": 0, **kwargs})
        self.application = application
        self.task = task
        self.timeout_s = timeout_s
        self.reason = reason
        self.dry_run = dry_run
        self.millrace_conn_id = millrace_conn_id

    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Drill it."""
        hook = MillraceHook(self.millrace_conn_id)
        if self.application != ALL:
            return {self.application: self._drill(hook, self.application)}
        deployed = set(hook.home.deployed())
        chosen = [name for name, spec in applications(hook.home).items() if not spec.production and name in deployed]
        self.log.info("applications: %s", ", ".join(chosen) or "none is deployed that is not for production")
        results, problems = {}, []
        for name in chosen:
            try:
                results[name] = self._drill(hook, name)
            except MillraceError as error:
                # What does not run, or has no input, cannot be drilled today; the others are.
                self.log.warning("%s was not drilled: %s", name, error)
            except AirflowFailException as error:
                problems.append(str(error))
        if problems:
            raise AirflowFailException("; ".join(problems)[:2000])
        return results

    def _drill(self, hook: MillraceHook, name: str) -> dict[str, Any]:
        outcome = hook.recovery_drill(
            name,
            task=self.task,
            timeout_s=float(self.timeout_s),
            reason=self.reason,
            dry_run=is_true(self.dry_run),
            progress=lambda line: self.log.info("  %s", line),
        )
        self.log.info("%s: %s, %s", name, outcome.action, outcome.text)
        if outcome.action == "not recovered":
            raise AirflowFailException(f"{name}: {outcome.text}")
        return dict(outcome.results.get("drill", {}))
