"""The operator of a planned stop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseOperator, Context

from millrace_airflow.hooks.millrace import MillraceHook
from millrace_airflow.operators.deploy import is_true


class MillraceStopOperator(BaseOperator):  # type: ignore[misc]
    """Stops an application gracefully; its supervising task ends in success, and nothing starts it again but a deploy.

    Args:
        application: name of the application; templated.
        dry_run: ``True`` only logs the plan; templated.
        reason: for the record and the journal; templated.
        millrace_conn_id: see :class:`~millrace_airflow.hooks.millrace.MillraceHook`.
    """

    template_fields: Sequence[str] = ("application", "dry_run", "reason")
    ui_color = "#f7d9cd"

    def __init__(
        self,
        *,
        application: str,
        dry_run: bool | str = False,
        reason: str = "a stop was asked for",
        millrace_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.application = application
        self.dry_run = dry_run
        self.reason = reason
        self.millrace_conn_id = millrace_conn_id

    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Stop it."""
        hook = MillraceHook(self.millrace_conn_id)
        outcome = hook.stop(self.application, reason=self.reason, dry_run=is_true(self.dry_run))
        self.log.info("%s: %s", outcome.action, outcome.text)
        for step in outcome.steps:
            self.log.info("  %s", step)
        return outcome.summary()
