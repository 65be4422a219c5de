"""The operator that resets an application."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from millrace.errors import OperationError
from millrace.operations import Outcome
from millrace_airflow.hooks.millrace import MillraceHook
from millrace_airflow.operators.operation import MillraceOperationOperator
from millrace_airflow.values import is_true, names

if TYPE_CHECKING:
    from millrace.operations.reset import Target

PLACES = ("earliest", "latest", "offset", "datetime", "duration", "shift")
"""Where input topics can be set to; all but the first two need a value."""


class MillraceResetOperator(MillraceOperationOperator):
    """Lets an application begin again: offsets, internal topics, stores.

    Args:
        to: where the input topics go, one of :data:`PLACES`; templated.
        to_value: the offset, ISO time (UTC), ISO duration ago, or number of offsets that ``to`` needs; templated.
        input_topics: names separated by commas, none means all; templated.
        internal_topics: those to delete, none means all; templated.
        output_topics: outputs whose records are deleted; templated.
        empty_dead_letters: delete the records of the dead-letter topic; templated.
        delete_savepoints: delete its savepoints; templated.
        stop: stop the application first; templated.
        force: pass over members and drivers elsewhere that are dead; templated.
        kwargs: see :class:`MillraceOperationOperator`.
    """

    template_fields: Sequence[str] = (
        *MillraceOperationOperator.template_fields,
        "to",
        "to_value",
        "input_topics",
        "internal_topics",
        "output_topics",
        "empty_dead_letters",
        "delete_savepoints",
        "stop",
        "force",
    )

    def __init__(
        self,
        *,
        to: str = "earliest",
        to_value: str = "",
        input_topics: str = "",
        internal_topics: str = "",
        output_topics: str = "",
        empty_dead_letters: bool | str = False,
        delete_savepoints: bool | str = False,
        stop: bool | str = False,
        force: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.to = to
        self.to_value = to_value
        self.input_topics = input_topics
        self.internal_topics = internal_topics
        self.output_topics = output_topics
        self.empty_dead_letters = empty_dead_letters
        self.delete_savepoints = delete_savepoints
        self.stop = stop
        self.force = force

    def begin(self, hook: MillraceHook, *, dry_run: bool) -> Outcome:
        """Reset it."""
        from millrace.operations.reset import ResetOptions

        options = ResetOptions(
            to=target_of(self.to, self.to_value),
            input_topics=frozenset(names(self.input_topics)),
            internal_topics=frozenset(names(self.internal_topics)),
            output_topics=frozenset(names(self.output_topics)),
            empties_dead_letters=is_true(self.empty_dead_letters),
            deletes_savepoints=is_true(self.delete_savepoints),
            stop=is_true(self.stop),
            force=is_true(self.force),
        )
        return hook.reset(self.application, options, reason=self.reason, dry_run=dry_run, progress=self.log_progress)

    def facts(self, outcome: Outcome) -> Mapping[str, Any]:
        """What was checked."""
        checks = outcome.results.get("check", {}).get("checks", [])
        for line in checks:
            self.log.info("checked %s", line)
        return {"checks": [str(line)[:300] for line in checks[:30]]}

    def what_next(self, outcome: Outcome) -> str:  # noqa: ARG002
        """The application is stopped now."""
        return f"it does not run; start it with millrace_deploy, application {self.application}"


def target_of(to: str, value: str) -> Target:
    """Where input topics go.

    Args:
        to: one of :data:`PLACES`.
        value: what it needs.

    Raises:
        OperationError: it is none, or the value does not fit.
    """
    from millrace.operations import reset

    text = value.strip()
    if to == "earliest":
        return reset.ToEarliest()
    if to == "latest":
        return reset.ToLatest()
    try:
        if to == "offset":
            return reset.ToOffset(int(text))
        if to == "shift":
            return reset.ShiftBy(int(text))
    except ValueError as error:
        raise OperationError(
            f"{text!r} is no number of offsets for {to!r}.", remedy="give a whole number as value"
        ) from error
    if to == "datetime":
        return reset.ToTime(reset.parse_time(text))
    if to == "duration":
        return reset.ToTime(round((time.time() - reset.parse_duration(text).total_seconds()) * 1000))
    raise OperationError(f"{to!r} is no place for input topics.", remedy=f"choose one of {', '.join(PLACES)}")
