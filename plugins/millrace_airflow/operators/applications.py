"""The operator that says which applications a run is about, for tasks that are mapped over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Context, Variable

from millrace.errors import MillraceError
from millrace.install.record import DesiredState, read_record
from millrace.operations.journal import OperationState, operations_of
from millrace_airflow.hooks.millrace import MillraceHook
from millrace_airflow.operators.base import MillraceOperator
from millrace_airflow.windows import OffPeakWindow

ALL = "all"
WINDOW_VARIABLE = "millrace_off_peak"
"""Airflow variable with the off-peak hours of scheduled runs, as ``22:00-06:00``, UTC."""


class MillraceApplicationsOperator(MillraceOperator):
    """Returns the names of the applications that the tasks behind it are mapped over.

    One that was chosen by hand is always returned. Of all, those are returned that should run here and that the run is
    due for. Scheduled runs outside the off-peak hours return none; so do others, where ``window`` was given.

    Args:
        application: a name, or ``all``; templated.
        run_type: type of the run; templated.
        window: off-peak hours; empty takes those of the variable ``millrace_off_peak``, else ``default_window``, for
            scheduled runs, and none for others; templated.
        default_window: see there; empty means the whole day.
        least_interval_h: leaves out applications whose last completed operation ``operation`` is younger, hours;
            only of scheduled runs; templated.
        operation: kind of the operation whose age counts; empty looks at none.
        only_due_savepoints: returns, of all, those whose specification says that a savepoint is due.
        kwargs: see :class:`~millrace_airflow.operators.base.MillraceOperator`.
    """

    template_fields: Sequence[str] = ("application", "run_type", "window", "least_interval_h")
    ui_color = "#eeeeee"

    def __init__(
        self,
        *,
        application: str = ALL,
        run_type: str = "{{ dag_run.run_type }}",
        window: str = "",
        default_window: str = "",
        least_interval_h: float | str = 0,
        operation: str = "",
        only_due_savepoints: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.application = application
        self.run_type = run_type
        self.window = window
        self.default_window = default_window
        self.least_interval_h = least_interval_h
        self.operation = operation
        self.only_due_savepoints = only_due_savepoints

    def act(self, hook: MillraceHook, context: Context) -> list[str]:  # noqa: ARG002
        """Choose them."""
        now = datetime.now(UTC)
        why = self._why_closed(now)
        if why is not None:
            self.log.info("What happened: nothing, %s.", why)
            self.log.info("What to do: wait for the next run, or trigger one with other hours.")
            return []
        if self.application != ALL:
            return [self.application]
        chosen = [name for name in hook.home.deployed() if self._is_chosen(hook, name, now)]
        self.log.info("applications: %s", ", ".join(chosen) or "none")
        return chosen

    @property
    def is_scheduled(self) -> bool:
        """Whether nobody asked for this very run."""
        return self.run_type.rpartition(".")[2].lower() == "scheduled"

    def _why_closed(self, now: datetime) -> str | None:
        text = self.window
        if not text and self.is_scheduled and self.default_window:
            text = str(Variable.get(WINDOW_VARIABLE, default=self.default_window))
        if not text or OffPeakWindow.parse(text).seconds_left(now) is not None:
            return None
        return f"{now:%H:%M} UTC is outside the off-peak hours {text}"

    def _is_chosen(self, hook: MillraceHook, name: str, now: datetime) -> bool:
        checks: list[Callable[[MillraceHook, str, datetime], str]] = [_why_not_running]
        if self.operation and self.is_scheduled:
            checks.append(self._why_too_early)
        if self.only_due_savepoints:
            checks.append(_why_not_due)
        try:
            why = next(filter(None, (check(hook, name, now) for check in checks)), "")
        except MillraceError as error:
            # The task of the application itself says it again, and fails; the others are not held up.
            self.log.warning("%s: %s", name, error)
            return True
        if why:
            self.log.info("not %s: %s", name, why)
        return not why

    def _why_too_early(self, hook: MillraceHook, name: str, now: datetime) -> str:
        ended = [
            datetime.fromisoformat(each.ended_at)
            for each in operations_of(hook.home.application(name))
            if each.plan.operation == self.operation and each.state is OperationState.COMPLETED
        ]
        least = timedelta(hours=float(self.least_interval_h))
        if ended and now - max(ended) < least:
            return f"its last {self.operation} ended at {max(ended):%Y-%m-%d %H:%M} UTC, less than {least} ago"
        return ""


def _why_not_running(hook: MillraceHook, name: str, _now: datetime) -> str:
    record = read_record(hook.home.application(name))
    return "" if record is not None and record.desired is DesiredState.RUNNING else "it should not run"


def _why_not_due(hook: MillraceHook, name: str, _now: datetime) -> str:
    return "" if hook.is_savepoint_due(name) else "no savepoint is due"
