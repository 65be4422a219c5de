"""The operator of a planned stop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from millrace_airflow.hooks.millrace import MillraceHook
from millrace_airflow.operators.base import MillraceActionOperator
from millrace_airflow.values import is_true


class MillraceStopOperator(MillraceActionOperator):
    """Stops an application gracefully; its supervising task ends in success, and nothing starts it again but a deploy.

    Args:
        suspend: ``True`` also writes ``state: suspended`` into the specification; templated.
        kwargs: see :class:`~millrace_airflow.operators.base.MillraceActionOperator`.
    """

    template_fields: Sequence[str] = (*MillraceActionOperator.template_fields, "suspend")
    ui_color = "#f7d9cd"
    another_try_helps = True

    def __init__(self, *, suspend: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.suspend = suspend

    def act(self, hook: MillraceHook, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Stop it."""
        stop = hook.suspend if is_true(self.suspend) else hook.stop
        outcome = stop(self.application, reason=self.reason, dry_run=self.is_dry)
        for step in outcome.steps:
            self.log_line(step)
        what_next = "nothing more; millrace_deploy starts it again"
        if is_true(self.suspend):
            what_next = (
                "to let it run again, set `state: running` in its specification and deploy it with millrace_deploy"
            )
        self.log_outcome(outcome, what_next)
        return outcome.summary()
