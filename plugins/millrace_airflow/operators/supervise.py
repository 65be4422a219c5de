"""The operator that looks after a job that never ends, without holding a worker slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.execution_time.context import NEVER_EXPIRE

from millrace.launch import Reason
from millrace.operations import Action, Outcome
from millrace_airflow.hooks.millrace import MillraceHook
from millrace_airflow.operators.base import failure
from millrace_airflow.triggers.supervise import EventKind, SuperviseTrigger

DEFERRAL_TIMEOUT_S = 3600.0
_COUNTERS = {
    Action.RESTART: "restarts",
    Action.UPGRADE: "upgrades",
    Action.BLOCKED: "blocked",
    Action.ROLLED_BACK: "rolled_back",
}
"""What is counted, under which name."""


class MillraceSuperviseOperator(BaseOperator):  # type: ignore[misc]
    """Takes a job over (or starts it), and defers; comes back to restart it, and ends when it is stopped as planned.

    The task succeeds after a planned stop, and when another task took the job over. It fails when the restart limit of
    the specification is reached, and after ``deferral_timeout_s`` without a triggerer; its next try adopts the job,
    which has run on. There is no ``on_kill`` here on purpose: a worker that dies or is declared dead while it acts
    must not take the job with it. A person's kill reaches the trigger; in the second before the triggerer has taken it
    up, and while there is no triggerer, Airflow tells nobody: `millrace_stop` stops the job in any case.

    Args:
        application: name of the application.
        millrace_conn_id: see :class:`~millrace_airflow.hooks.millrace.MillraceHook`.
        deferral_timeout_s: how long a deferral may go without any triggerer, seconds.
    """

    template_fields: Sequence[str] = ("application",)
    ui_color = "#cde4f7"

    def __init__(
        self,
        *,
        application: str,
        millrace_conn_id: str | None = None,
        deferral_timeout_s: float = DEFERRAL_TIMEOUT_S,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.application = application
        self.millrace_conn_id = millrace_conn_id
        self.deferral_timeout_s = deferral_timeout_s

    @property
    def hook(self) -> MillraceHook:
        """The installation."""
        return MillraceHook(self.millrace_conn_id)

    def execute(self, context: Context) -> dict[str, Any]:
        """Take the job over, then wait."""
        owner = owner_of(context)
        outcome = self.hook.take_over_supervision(self.application, owner=owner)
        self.log.info("%s: %s", outcome.action, outcome.text)
        if outcome.action is Action.STOPPED:
            return outcome.summary()
        return self._go_on(context, outcome, owner)

    def resume(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """Look at the facts, do what is needed, then wait again or end.

        The event only wakes the task up. On databases that use a trigger's number again (SQLite), the event of the
        trigger of a cleared try can reach the next try, so what it says of ownership is not believed.
        """
        owner = owner_of(context)
        self.log.info("%s: %s", event["kind"], event["text"])
        if not self.hook.owns(self.application, owner=owner):
            return self._end(context, EventKind.SUPERSEDED)
        outcome = self.hook.reconcile(self.application)
        if outcome.observation is not None and outcome.observation.reason is Reason.STOPPED_AS_ASKED:
            return self._end(context, EventKind.STOPPED)
        return self._go_on(context, outcome, owner)

    def _end(self, context: Context, kind: EventKind) -> dict[str, Any]:
        observation = self.hook.observe(self.application)
        self.log.info("%s: %s", kind, observation.text)
        return {"ended": kind.value, "counters": self._counters(context), **observation.summary()}

    def _go_on(self, context: Context, outcome: Outcome, owner: str) -> dict[str, Any]:
        self.log.info("%s: %s", outcome.action, outcome.text)
        for step in outcome.steps:
            self.log.info("  %s", step)
        self._count(context, outcome)
        if outcome.action is Action.GIVE_UP:
            raise failure(
                f"{self.application}: {outcome.text}",
                "read the end of the driver's log, fix the cause, and deploy it again with millrace_deploy",
                is_final=True,
            )
        home = self.hook.home
        self.defer(
            trigger=SuperviseTrigger(
                home=str(home.root),
                specs=str(home.specs),
                application=self.application,
                owner=owner,
                checkpoint_s=self.deferral_timeout_s / 2,
            ),
            method_name="resume",
            timeout=timedelta(seconds=self.deferral_timeout_s),
        )
        raise AssertionError("defer does not return")

    def _counters(self, context: Context) -> dict[str, Any]:
        stored = context["task_state_store"].get("counters")
        return dict(stored) if isinstance(stored, Mapping) else {"restarts": 0}

    def _count(self, context: Context, outcome: Outcome) -> None:
        counters = self._counters(context)
        if (key := _COUNTERS.get(outcome.action)) is not None:
            counters = {**counters, key: int(counters.get(key, 0)) + 1, "last_reason": outcome.text[:300]}
        # Keyword arguments of a deferral get lost in some runs; this store survives also retries.
        context["task_state_store"].set("counters", counters, retention=NEVER_EXPIRE)


def owner_of(context: Context) -> str:
    """``run_id/try_number``: who owns a job that this try supervises."""
    instance = context["ti"]
    return f"{instance.run_id}/{instance.try_number}"
