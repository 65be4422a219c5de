"""The operator of a planned stop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseOperator, Context

from millrace.errors import MillraceError
from millrace.ops import Outcome
from millrace_airflow.assets import OPERATIONS
from millrace_airflow.hooks.millrace import MillraceHook
from millrace_airflow.operators.operation import failure
from millrace_airflow.values import is_true


class MillraceStopOperator(BaseOperator):  # type: ignore[misc]
    """Stops an application gracefully; its supervising task ends in success, and nothing starts it again but a deploy.

    Args:
        application: name of the application; templated.
        dry_run: ``True`` only logs the plan; templated.
        reason: for the record and the journal; templated.
        suspend: ``True`` also writes ``state: suspended`` into the specification; templated.
        millrace_conn_id: see :class:`~millrace_airflow.hooks.millrace.MillraceHook`.
    """

    template_fields: Sequence[str] = ("application", "dry_run", "reason", "suspend")
    ui_color = "#f7d9cd"

    def __init__(
        self,
        *,
        application: str,
        dry_run: bool | str = False,
        reason: str = "a stop was asked for",
        suspend: bool | str = False,
        millrace_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("outlets", [OPERATIONS])
        super().__init__(**kwargs)
        self.application = application
        self.dry_run = dry_run
        self.reason = reason
        self.suspend = suspend
        self.millrace_conn_id = millrace_conn_id

    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Stop it."""
        hook = MillraceHook(self.millrace_conn_id)
        act = hook.suspend if is_true(self.suspend) else hook.stop
        try:
            outcome = act(self.application, reason=self.reason, dry_run=is_true(self.dry_run))
        except MillraceError as error:
            raise failure(error.message, error.remedy or "read the log above", is_final=False) from None
        for step in outcome.steps:
            self.log.info("  %s", step)
        would = "would do: " if outcome.dry_run else ""
        self.log.info("What happened: %s%s of %s: %s.", would, outcome.action, self.application, outcome.text)
        self.log.info("What to do: %s.", self._what_next(outcome))
        return outcome.summary()

    def _what_next(self, outcome: Outcome) -> str:
        if outcome.dry_run:
            return "trigger it again with the dry run switched off"
        if is_true(self.suspend):
            return "to let it run again, set `state: running` in its specification and deploy it with millrace_deploy"
        return "nothing more; millrace_deploy starts it again"
