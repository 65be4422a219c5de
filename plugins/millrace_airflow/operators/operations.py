"""The operator that ends operations which were killed or have failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from millrace_airflow.hooks.millrace import MillraceHook
from millrace_airflow.operators.base import MillraceActionOperator

RESUME, ABANDON = "resume", "abandon"


class MillraceOperationsOperator(MillraceActionOperator):
    """Carries on the operation that was killed or has failed, whoever began it, or gives it up.

    Args:
        action: ``resume`` or ``abandon``; templated.
        kwargs: see :class:`~millrace_airflow.operators.base.MillraceActionOperator`.
    """

    template_fields: Sequence[str] = (*MillraceActionOperator.template_fields, "action")
    ui_color = "#f4e8c8"

    def __init__(self, *, action: str = RESUME, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.action = action

    def act(self, hook: MillraceHook, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Resume or abandon it."""
        record = hook.unfinished_operation(self.application)
        if record is None:
            self.log.info("What happened: nothing, no operation of %s is unfinished.", self.application)
            self.log.info("What to do: nothing more.")
            return {"application": self.application, "action": "nothing"}
        self.log.info("unfinished: %s", record)
        if self.is_dry:
            self.log.info("What happened: nothing, this was a dry run of %s.", self.action)
            self.log.info("What to do: trigger it again with the dry run switched off.")
            return {"application": self.application, "action": "plan", "operation_id": record.id}
        if self.action == ABANDON:
            hook.abandon(self.application, reason=self.reason)
        else:
            hook.resume(self.application, progress=self.log_line)
        self.log.info("What happened: %s, %s.", record.id, "abandoned" if self.action == ABANDON else "completed")
        self.log.info("What to do: see millrace_preflight, and deploy it with millrace_deploy if it should run.")
        return {"application": self.application, "action": self.action, "operation_id": record.id}
