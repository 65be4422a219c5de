"""The bases of the operators: an installation, an application, and how a task of theirs fails."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from millrace.errors import MillraceError
from millrace.install.which_spec import Use
from millrace.operations import Outcome
from millrace_airflow.assets import OPERATIONS
from millrace_airflow.hooks.millrace import MillraceHook
from millrace_airflow.values import is_true


class MillraceOperator(BaseOperator):  # type: ignore[misc]
    """Does something in an installation. An error of Millrace fails the task with what happened and what to do.

    Args:
        millrace_conn_id: see :class:`~millrace_airflow.hooks.millrace.MillraceHook`.
        kwargs: see Airflow's ``BaseOperator``.
    """

    another_try_helps: ClassVar[bool] = False
    """Whether it is tried again after an error, where the DAG has tries left."""

    goes_by: ClassVar[Use | None] = None
    """By which specification of ``application`` it goes, where it is about one: the log says where that differs."""

    application: str = ""

    def __init__(self, *, millrace_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.millrace_conn_id = millrace_conn_id

    @abstractmethod
    def act(self, hook: MillraceHook, context: Context) -> Any:
        """Do it; what it returns is small and JSON-compatible."""

    def execute(self, context: Context) -> Any:
        """Do it, or fail with what happened and what to do in the log's last line."""
        try:
            hook = MillraceHook(self.millrace_conn_id)
            if note := self.difference(hook):
                self.log.warning("note: %s", note)
            return self.act(hook, context)
        except MillraceError as error:
            raise failure(
                error.message, error.remedy or "read the log above", is_final=not self.another_try_helps
            ) from None

    def difference(self, hook: MillraceHook) -> str:
        """One line where what the application was launched with differs from what is there now; else empty."""
        return hook.difference_note(self.application, self.goes_by) if self.goes_by and self.application else ""

    def log_line(self, line: str) -> None:
        """A line between what happens."""
        self.log.info("  %s", line)


class MillraceActionOperator(MillraceOperator):
    """Changes an application; success updates the asset :data:`~millrace_airflow.assets.OPERATIONS`.

    Args:
        application: name of the application; templated.
        dry_run: ``True`` only logs the plan; templated, so text is taken too.
        reason: for the journal; templated.
        kwargs: see :class:`MillraceOperator`.
    """

    template_fields: Sequence[str] = ("application", "dry_run", "reason")
    goes_by: ClassVar[Use | None] = Use.RUNNING

    def __init__(
        self,
        *,
        application: str,
        dry_run: bool | str = False,
        reason: str = "asked for in Airflow",
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"outlets": [OPERATIONS], **kwargs})
        self.application = application
        self.dry_run = dry_run
        self.reason = reason

    @property
    def is_dry(self) -> bool:
        """Whether it only logs the plan."""
        return is_true(self.dry_run)

    def log_outcome(self, outcome: Outcome, what_next: str) -> None:
        """The log's last lines.

        Args:
            outcome: what was done.
            what_next: what to do after it.
        """
        would = "would do: " if outcome.dry_run else ""
        if outcome.dry_run:
            what_next = "trigger it again with the dry run switched off"
        self.log.info("What happened: %s%s of %s: %s.", would, outcome.done, self.application, outcome.text)
        self.log.info("What to do: %s.", what_next)


def failure(happened: str, advice: str, *, is_final: bool) -> AirflowException:
    """The exception that fails a task, with what happened and what to do.

    Args:
        happened: a sentence.
        advice: what to do.
        is_final: whether another try would be of no use.
    """
    kind = AirflowFailException if is_final else AirflowException
    return kind(f"{happened} What to do: {advice}")
