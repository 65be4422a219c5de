"""The operator of canaries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException

from millrace_airflow.hooks.millrace import MillraceHook
from millrace_airflow.operators.deploy import tell_launch
from millrace_airflow.values import is_true

ACTIONS = ("start", "compare", "promote", "drop")
_LISTED = 20


class MillraceCanaryOperator(BaseOperator):  # type: ignore[misc]
    """Starts a canary of an application, compares both, promotes it, or drops it.

    The comparison fails where they differ. What was killed midway is carried on by ``millrace operations resume`` under
    the name of the clone.

    Args:
        application: the application, not the canary; templated.
        action: ``start``, ``compare``, ``promote`` or ``drop``; templated.
        spec: to start: file with the new specification, on the workers' host; templated.
        every_record: to compare: count every record, not only the last value of each key; templated.
        dry_run: ``True`` only logs the plan; a comparison changes nothing and is made; templated.
        reason: for the journal; templated.
        millrace_conn_id: see :class:`~millrace_airflow.hooks.millrace.MillraceHook`.
    """

    template_fields: Sequence[str] = ("application", "action", "spec", "every_record", "dry_run", "reason")
    ui_color = "#fbf3c4"

    def __init__(
        self,
        *,
        application: str,
        action: str,
        spec: str = "",
        every_record: bool | str = False,
        dry_run: bool | str = False,
        reason: str = "asked for in Airflow",
        millrace_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.application = application
        self.action = action
        self.spec = spec
        self.every_record = every_record
        self.dry_run = dry_run
        self.reason = reason
        self.millrace_conn_id = millrace_conn_id

    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Do it."""
        # Loads topologies, which the parsing of DAG files must not wait for.
        from millrace.ops import canary

        home = MillraceHook(self.millrace_conn_id).home
        if self.action == "compare":
            return self._compare(canary.compare(home, self.application, every_record=is_true(self.every_record)))
        options: dict[str, Any] = {
            "reason": self.reason,
            "dry_run": is_true(self.dry_run),
            "progress": lambda line: self.log.info("  %s", line),
        }
        if self.action == "start":
            if not self.spec:
                raise AirflowFailException("Nothing was started: name the file of the new specification.")
            outcome = canary.start(home, self.application, Path(self.spec), **options)
        elif self.action == "promote":
            outcome = canary.promote(home, self.application, **options)
        elif self.action == "drop":
            outcome = canary.drop(home, self.application, **options)
        else:
            raise AirflowFailException(f"{self.action!r} is none of {', '.join(ACTIONS)}.")
        tell_launch(self, outcome)
        return outcome.summary()

    def _compare(self, found: Any) -> dict[str, Any]:
        for each in found.differences[:_LISTED]:
            self.log.error("%s %r: %s", each.topic, each.key, each.text)
        count, rest = len(found.differences), "" if found.at_rest else "; one of them has not processed all input"
        self.log.info("What happened: %d keys were compared, %d differences%s.", found.keys, count, rest)
        if count:
            raise AirflowFailException(
                f"{count} differences among {found.keys} keys{rest}. What to do: read them above; if the new "
                "version is right, promote it, else drop the canary."
            )
        self.log.info("What to do: promote the canary, or drop it.")
        return {"keys": found.keys, "differences": count, "at_rest": found.at_rest}
