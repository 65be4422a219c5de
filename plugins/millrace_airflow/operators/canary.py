"""The operator of canaries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airflow.sdk import Context

from millrace.errors import OperationError
from millrace.install.application import Application
from millrace_airflow.hooks.millrace import MillraceHook
from millrace_airflow.operators.base import MillraceActionOperator, failure
from millrace_airflow.operators.deploy import check_launch
from millrace_airflow.values import is_true

ACTIONS = ("start", "compare", "promote", "drop")
_LISTED = 20
_NEXT = {
    "start": "compare both once it has worked for a while",
    "promote": "drop the canary",
    "drop": "nothing more",
}


class MillraceCanaryOperator(MillraceActionOperator):
    """Starts a canary of an application, compares both, promotes it, or drops it.

    The comparison fails where they differ. What was killed midway is resumed by ``millrace operations resume`` under
    the name of the clone.

    Args:
        action: ``start``, ``compare``, ``promote`` or ``drop``; templated.
        spec: to start: file with the new specification, on the workers' host; templated.
        every_record: to compare: count every record, not only the last value of each key; templated.
        kwargs: see :class:`~millrace_airflow.operators.base.MillraceActionOperator`; ``application`` is not the canary,
            and a comparison, which changes nothing, is made in a dry run too.
    """

    template_fields: Sequence[str] = (*MillraceActionOperator.template_fields, "action", "spec", "every_record")
    ui_color = "#fbf3c4"

    def __init__(self, *, action: str, spec: str = "", every_record: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.action = action
        self.spec = spec
        self.every_record = every_record

    def difference(self, hook: MillraceHook) -> str:
        """A promotion is a deployment, whose steps say what differs."""
        return "" if self.action == "promote" else super().difference(hook)

    def act(self, hook: MillraceHook, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Do it."""
        # Loads topologies, which the parsing of DAG files must not wait for.
        from millrace.supervise import canary

        home = hook.home
        if self.action == "compare":
            return self._compare(
                canary.compare(Application(home, self.application), every_record=is_true(self.every_record))
            )
        options: dict[str, Any] = {
            "reason": self.reason,
            "dry_run": self.is_dry,
            "progress": self.log_line,
        }
        if self.action == "start":
            if not self.spec:
                raise OperationError("Nothing was started.", remedy="name the file of the new specification")
            outcome = canary.start(Application(home, self.application), Path(self.spec), **options)
        elif self.action == "promote":
            outcome = canary.promote(Application(home, self.application), **options)
        elif self.action == "drop":
            outcome = canary.drop(Application(home, self.application), **options)
        else:
            raise OperationError(f"{self.action!r} is no action.", remedy=f"choose one of {', '.join(ACTIONS)}")
        check_launch(self, outcome)
        self.log_outcome(outcome, _NEXT[self.action])
        return outcome.summary()

    def _compare(self, found: Any) -> dict[str, Any]:
        for each in found.differences[:_LISTED]:
            self.log.error("%s %r: %s", each.topic, each.key, each.text)
        count, rest = len(found.differences), "" if found.at_rest else "; one of them has not processed all input"
        self.log.info("What happened: %d keys were compared, %d differences%s.", found.keys, count, rest)
        if count:
            raise failure(
                f"{count} differences among {found.keys} keys{rest}.",
                "read them above; if the new version is right, promote it, else drop the canary",
                is_final=True,
            )
        self.log.info("What to do: promote the canary, or drop it.")
        return {"keys": found.keys, "differences": count, "at_rest": found.at_rest}
