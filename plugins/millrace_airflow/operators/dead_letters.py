"""The operator that sends dead-letter records back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from millrace.operations import Outcome
from millrace_airflow.hooks.millrace import MillraceHook
from millrace_airflow.operators.operation import MillraceOperationOperator
from millrace_airflow.values import is_true, names, text_or_none


class MillraceReplayOperator(MillraceOperationOperator):
    """Sends dead-letter records back to the topics they were read from, each exactly once.

    Args:
        since: records from this ISO time on, UTC; templated.
        until: records before it; templated.
        error: part of the exception's name, or of the reason of the drop; templated.
        topic: where the records were read; templated.
        letters: ``partition:offset`` of some dead-letter records, separated by commas; templated.
        to_source_partition: back to the partition where they were read, not that of their key; templated.
        force: also what was sent back before; templated.
        kwargs: see :class:`MillraceOperationOperator`.
    """

    template_fields: Sequence[str] = (
        *MillraceOperationOperator.template_fields,
        "since",
        "until",
        "error",
        "topic",
        "letters",
        "to_source_partition",
        "force",
    )

    def __init__(
        self,
        *,
        since: str = "",
        until: str = "",
        error: str = "",
        topic: str = "",
        letters: str = "",
        to_source_partition: bool | str = False,
        force: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.since = since
        self.until = until
        self.error = error
        self.topic = topic
        self.letters = letters
        self.to_source_partition = to_source_partition
        self.force = force

    def begin(self, hook: MillraceHook, *, dry_run: bool) -> Outcome:
        """Send them back."""
        from millrace.operations.dead_letters import Selection, parse_record_position
        from millrace.operations.reset import parse_time

        since, until = text_or_none(self.since), text_or_none(self.until)
        selection = Selection(
            since_ms=None if since is None else parse_time(since),
            until_ms=None if until is None else parse_time(until),
            error=text_or_none(self.error) or "",
            topic=text_or_none(self.topic),
            positions=frozenset(parse_record_position(each) for each in names(self.letters)),
        )
        return hook.replay_dead_letter_records(
            self.application,
            selection,
            to_source_partition=is_true(self.to_source_partition),
            force=is_true(self.force),
            reason=self.reason,
            dry_run=dry_run,
            progress=self.log_progress,
        )

    def facts(self, outcome: Outcome) -> Mapping[str, Any]:
        """How many records went where."""
        return {"sent": dict(list(outcome.results["send"]["sent"].items())[:50])}
