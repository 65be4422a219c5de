"""The operator of the safety net."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from millrace.operations import Action
from millrace_airflow.hooks.millrace import MillraceHook
from millrace_airflow.operators.base import MillraceOperator, failure
from millrace_airflow.values import is_true

_BAD = {Action.FAILED, Action.GIVE_UP}


class MillraceReconcileOperator(MillraceOperator):
    """Brings every deployed application one step nearer to its desired state; fails if one of them cannot be helped.

    Args:
        dry_run: ``True`` only logs what would be done; templated.
        kwargs: see :class:`~millrace_airflow.operators.base.MillraceOperator`.
    """

    template_fields: Sequence[str] = ("dry_run",)
    ui_color = "#e6daf2"

    def __init__(self, *, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dry_run = dry_run

    def act(self, hook: MillraceHook, context: Context) -> dict[str, str]:  # noqa: ARG002
        """Reconcile all."""
        outcomes = hook.reconcile_all(dry_run=is_true(self.dry_run))
        for outcome in outcomes:
            self.log.info("%s: %s, %s", outcome.application, outcome.action, outcome.text)
            for step in outcome.steps:
                self.log_line(step)
        bad = [outcome for outcome in outcomes if outcome.action in _BAD]
        if bad:
            raise failure(
                "; ".join(f"{outcome.application}: {outcome.text}" for outcome in bad)[:2000],
                "read the end of the driver's log, fix the cause, and deploy it again with millrace_deploy",
                is_final=True,
            )
        return {outcome.application: f"{outcome.action}: {outcome.text}"[:200] for outcome in outcomes[:100]}
