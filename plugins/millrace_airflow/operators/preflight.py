"""The operator that reports what a deployment would meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from millrace_airflow.hooks.millrace import MillraceHook
from millrace_airflow.operators.base import MillraceOperator, failure
from millrace_airflow.values import is_true


class MillracePreflightOperator(MillraceOperator):
    """Compares a specification with what runs and with the broker; fails where a deployment would be refused.

    Args:
        application: name of the application; templated.
        fail_when_refused: whether a refusal fails the task; templated.
        kwargs: see :class:`~millrace_airflow.operators.base.MillraceOperator`.
    """

    template_fields: Sequence[str] = ("application", "fail_when_refused")
    ui_color = "#dfe9f5"

    def __init__(
        self,
        *,
        application: str,
        fail_when_refused: bool | str = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.application = application
        self.fail_when_refused = fail_when_refused

    def act(self, hook: MillraceHook, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Report."""
        report = hook.upgrade_report(self.application)
        for line in report.lines():
            self.log.info("%s", line)
        if not report.refused:
            self.log.info("What happened: nothing is in the way of a deployment (%s).", report.action)
            self.log.info("What to do: deploy it with millrace_deploy, application %s.", self.application)
            return report.summary()
        happened = f"A deployment of {self.application} would be refused: " + "; ".join(
            f"{check.name}: {check.text}" for check in report.refused
        )
        advice = "; ".join(dict.fromkeys(check.remedy for check in report.refused if check.remedy))
        if is_true(self.fail_when_refused):
            raise failure(f"{happened}.", advice, is_final=True)
        self.log.warning("What happened: %s.", happened)
        self.log.warning("What to do: %s.", advice)
        return report.summary()
