"""The operator that ends operations which were killed or have failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseOperator, Context

from millrace.errors import MillraceError
from millrace_airflow.hooks.millrace import MillraceHook
from millrace_airflow.operators.operation import failure
from millrace_airflow.values import is_true

RESUME, ABANDON = "resume", "abandon"


class MillraceOperationsOperator(BaseOperator):  # type: ignore[misc]
    """Carries on the operation that was killed or has failed, whoever began it, or gives it up.

    Args:
        application: name of the application; templated.
        action: ``resume`` or ``abandon``; templated.
        dry_run: ``True`` only tells which operation it is; templated.
        reason: of giving it up, for the journal; templated.
        millrace_conn_id: see :class:`~millrace_airflow.hooks.millrace.MillraceHook`.
    """

    template_fields: Sequence[str] = ("application", "action", "dry_run", "reason")
    ui_color = "#f4e8c8"

    def __init__(
        self,
        *,
        application: str,
        action: str = RESUME,
        dry_run: bool | str = False,
        reason: str = "asked for in Airflow",
        millrace_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.application = application
        self.action = action
        self.dry_run = dry_run
        self.reason = reason
        self.millrace_conn_id = millrace_conn_id

    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Resume or abandon it."""
        hook = MillraceHook(self.millrace_conn_id)
        record = hook.unfinished_operation(self.application)
        if record is None:
            self.log.info("What happened: nothing, no operation of %s is unfinished.", self.application)
            self.log.info("What to do: nothing more.")
            return {"application": self.application, "action": "nothing"}
        self.log.info("unfinished: %s", record)
        if is_true(self.dry_run):
            self.log.info("What happened: nothing, this was a dry run of %s.", self.action)
            self.log.info("What to do: trigger it again with the dry run switched off.")
            return {"application": self.application, "action": "plan", "operation_id": record.id}
        try:
            if self.action == ABANDON:
                hook.abandon(self.application, reason=self.reason)
            else:
                hook.resume(self.application, progress=lambda line: self.log.info("%s", line))
        except MillraceError as error:
            raise failure(error.message, error.remedy or "read the log above", is_final=True) from None
        self.log.info("What happened: %s, %s.", record.id, "abandoned" if self.action == ABANDON else "completed")
        self.log.info("What to do: see millrace_preflight, and deploy it with millrace_deploy if it shall run.")
        return {"application": self.application, "action": self.action, "operation_id": record.id}
