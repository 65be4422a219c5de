"""The base of operators that execute multi-step operations."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException
from airflow.sdk.execution_time.context import NEVER_EXPIRE

from millrace.errors import MillraceError
from millrace.operations import Outcome
from millrace.operations.requester import Requester, on_behalf_of
from millrace_airflow.hooks.millrace import MillraceHook
from millrace_airflow.operators.base import MillraceActionOperator, failure

_PROGRESS_EVERY_S = 5.0
_REPORTED = "reported"


class MillraceOperationOperator(MillraceActionOperator):
    """Executes an operation that is planned first, journaled step by step, and resumed.

    A task that is retried or cleared goes on with the operation that it began, at the step that was not completed; one
    that had completed when the task died is not done again. A kill ends it between two steps, or within one if that
    takes longer than Airflow waits; the next try goes on in both cases. What is refused before anything was begun
    fails at once, without further tries. The log has the plan, each step, and in its last lines what happened and what
    to do.

    Args:
        kwargs: see :class:`~millrace_airflow.operators.base.MillraceActionOperator`.
    """

    ui_color = "#f4e8c8"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._is_killed = False
        self._steps: tuple[str, ...] = ()
        self._begun = ""
        self._told_at = 0.0

    @abstractmethod
    def begin(self, hook: MillraceHook, *, dry_run: bool) -> Outcome:
        """Begin the operation, and execute it; :meth:`log_progress` takes its lines."""

    def finish(self, hook: MillraceHook, outcome: Outcome) -> None:
        """What belongs to the task and is no step: it runs again where the task is tried again."""

    def facts(self, outcome: Outcome) -> Mapping[str, Any]:  # noqa: ARG002
        """What a task that comes after may need of a completed operation: small and JSON-compatible."""
        return {}

    def what_next(self, outcome: Outcome) -> str:  # noqa: ARG002
        """What to do after the operation was completed."""
        return "nothing more"

    @property
    def target(self) -> str:
        """The application that is operated on: it has the journal."""
        return self.application

    def act(self, hook: MillraceHook, context: Context) -> dict[str, Any]:
        """Execute it, or go on with it."""
        dry_run = self.is_dry
        store, name = context["task_state_store"], "" if dry_run else requester_name(context)
        requester = Requester(
            name=name, is_cancelled=lambda: self._is_killed, on_plan=self._log_plan, progress=self.log_progress
        )
        try:
            with on_behalf_of(requester):
                outcome = hook.resume_or(
                    self.target,
                    lambda: self.begin(hook, dry_run=dry_run),
                    reported="" if dry_run else str(store.get(_REPORTED) or ""),
                )
            self.finish(hook, outcome)
        except MillraceError as error:
            raise self._failure(hook, error, name) from None
        if self._begun:
            # From here on clearing the task begins another operation.
            store.set(_REPORTED, self._begun, retention=NEVER_EXPIRE)
        return self._conclude(outcome)

    def on_kill(self) -> None:
        """End it before its next step."""
        self._is_killed = True
        self.log.warning("killed: the operation ends before its next step; clear this task to go on with it")

    def log_progress(self, line: str) -> None:
        """A line that says how far it is: each step, and of what is between them one now and then."""
        if line in self._steps:
            self.log.info("step %d of %d: %s", self._steps.index(line) + 1, len(self._steps), line)
        elif time.monotonic() - self._told_at >= _PROGRESS_EVERY_S:
            self._told_at = time.monotonic()
            self.log.info("  %s", line)

    def _log_plan(self, operation_id: str, steps: Sequence[str]) -> None:
        self._begun, self._steps = operation_id, tuple(steps)
        self.log.info("operation %s of %s: %d steps", operation_id, self.target, len(steps))
        for number, step in enumerate(steps, 1):
            self.log.info("plan %d: %s", number, step)

    def _conclude(self, outcome: Outcome) -> dict[str, Any]:
        # They may log what they find, and the last lines are not theirs.
        facts = {} if outcome.dry_run else dict(self.facts(outcome))
        if outcome.dry_run:
            for number, step in enumerate(outcome.steps, 1):
                self.log.info("would do %d: %s", number, step)
            self.log.info("What happened: nothing, this was a dry run of %s on %s.", outcome.operation, self.target)
            self.log.info("What to do: if the plan is right, trigger it again with the dry run switched off.")
        else:
            self.log.info("What happened: %s of %s: done (%s).", outcome.operation, self.target, outcome.text)
            self.log.info("What to do: %s.", self.what_next(outcome))
        # The results of the steps may have a line for each partition; they stay in the journal.
        return {**outcome.summary(), "results": {}, "operation_id": self._begun, **facts}

    def _failure(self, hook: MillraceHook, error: MillraceError, name: str) -> AirflowException:
        unfinished = hook.unfinished_operation(self.target)
        is_own = bool(name) and unfinished is not None and unfinished.requested_by == name
        advice = error.remedy or "read the log above"
        if is_own:
            advice += "; then clear this task, which goes on where it stopped, or abandon it with millrace_operations"
        elif unfinished is not None:
            advice += f"; in Airflow: the DAG millrace_operations with application {self.target}"
        return failure(error.message, advice, is_final=not is_own)


def requester_name(context: Context) -> str:
    """What the journal calls this task, whichever try: ``airflow dag/run/task``, and the index of a mapped one."""
    instance = context["ti"]
    index = getattr(instance, "map_index", -1)
    mapped = f"/{index}" if index is not None and index >= 0 else ""
    return f"airflow {instance.dag_id}/{instance.run_id}/{instance.task_id}{mapped}"
