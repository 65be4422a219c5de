"""The operator of the safety net."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException

from millrace_airflow.hooks.millrace import MillraceHook
from millrace_airflow.values import is_true

_BAD = {"failed", "give_up"}


class MillraceReconcileOperator(BaseOperator):  # type: ignore[misc]
    """Brings every deployed application one step nearer to its desired state; fails if one of them cannot be helped.

    Args:
        dry_run: ``True`` only logs what would be done; templated.
        millrace_conn_id: see :class:`~millrace_airflow.hooks.millrace.MillraceHook`.
    """

    template_fields: Sequence[str] = ("dry_run",)
    ui_color = "#e6daf2"

    def __init__(self, *, dry_run: bool | str = False, millrace_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dry_run = dry_run
        self.millrace_conn_id = millrace_conn_id

    def execute(self, context: Context) -> dict[str, str]:  # noqa: ARG002
        """Reconcile all."""
        outcomes = MillraceHook(self.millrace_conn_id).reconcile_all(dry_run=is_true(self.dry_run))
        for outcome in outcomes:
            self.log.info("%s: %s, %s", outcome.application, outcome.action, outcome.text)
            for step in outcome.steps:
                self.log.info("  %s", step)
        bad = [outcome for outcome in outcomes if outcome.action in _BAD]
        if bad:
            raise AirflowFailException("; ".join(f"{outcome.application}: {outcome.text}" for outcome in bad)[:2000])
        return {outcome.application: f"{outcome.action}: {outcome.text}"[:200] for outcome in outcomes[:100]}
