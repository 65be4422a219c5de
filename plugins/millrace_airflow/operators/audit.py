"""The operator that compares stores with their changelogs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from millrace.install.files import strict_json
from millrace.install.which_spec import Use
from millrace_airflow.assets import OPERATIONS
from millrace_airflow.hooks.millrace import MillraceHook
from millrace_airflow.operators.base import MillraceOperator, failure
from millrace_airflow.values import names

_LISTED = 20
_PROGRESS_EVERY_S = 5.0


class MillraceAuditOperator(MillraceOperator):
    """Compares each store with a replay of its changelog, beside the running application; fails where they differ.

    It changes nothing, so that a retry begins again.

    Args:
        application: name of the application; templated.
        sample: share of the keys, above 0 and up to 1; templated.
        budget_s: seconds after which no more is compared; templated.
        stores: names separated by commas, none means all; templated.
        kwargs: see :class:`~millrace_airflow.operators.base.MillraceOperator`.
    """

    template_fields: Sequence[str] = ("application", "sample", "budget_s", "stores")
    ui_color = "#dfe9f5"
    goes_by = Use.RUNNING

    def __init__(
        self,
        *,
        application: str,
        sample: float | str = 1.0,
        budget_s: float | str = 600.0,
        stores: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"outlets": [OPERATIONS], **kwargs})
        self.application = application
        self.sample = sample
        self.budget_s = budget_s
        self.stores = stores
        self._told_at = 0.0

    def act(self, hook: MillraceHook, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Audit it."""
        report = hook.audit(
            self.application,
            sample=float(self.sample),
            budget_s=float(self.budget_s),
            stores=names(self.stores),
            progress=self._tell,
        )
        for each in report.stores:
            found = each.skipped or f"{each.keys} keys, {each.records} records, {each.differences} differences"
            self.log.info("%s of task %s: %s", each.store, each.task, found)
        for difference in report.differences[:_LISTED]:
            self.log.error("difference: %s", difference.document())
        differing = sum(each.differences for each in report.stores)
        if not report.agrees:
            stores = ", ".join(sorted({each.store for each in report.stores if each.differences}))
            raise failure(
                f"{differing} keys of {self.application} differ between store and changelog: {stores}.",
                "what a restoration would give is the changelog: if that is right, stop the application, remove the "
                "task's directory under state.dir and deploy it; if the store is right, take a savepoint with "
                "millrace_savepoint and restore it with millrace_restore, which writes the changelog again",
                is_final=True,
            )
        skipped = [each for each in report.stores if each.skipped]
        self.log.info(
            "What happened: all that was compared of %s agrees, in %.1f s; batches waited %.2f s; %d stores skipped.",
            self.application,
            report.took_s,
            report.held_s,
            len(skipped),
        )
        self.log.info("What to do: nothing more.")
        return dict(
            strict_json(
                {
                    "application": self.application,
                    "agrees": report.agrees,
                    "took_s": report.took_s,
                    "held_s": report.held_s,
                    "keys": sum(each.keys for each in report.stores),
                    "records": sum(each.records for each in report.stores),
                    "skipped": [f"{each.store} of {each.task}: {each.skipped}"[:200] for each in skipped[:_LISTED]],
                }
            )
        )

    def _tell(self, line: str) -> None:
        if time.monotonic() - self._told_at >= _PROGRESS_EVERY_S:
            self._told_at = time.monotonic()
            self.log.info("  %s", line)
