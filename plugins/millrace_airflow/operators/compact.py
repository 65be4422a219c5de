"""The operator that makes logs and files small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from millrace.operations import Outcome
from millrace_airflow.hooks.millrace import MillraceHook
from millrace_airflow.operators.operation import MillraceOperationOperator
from millrace_airflow.values import is_true
from millrace_airflow.windows import OffPeakWindow

LEAST_BUDGET_S = 30.0


class MillraceCompactOperator(MillraceOperationOperator):
    """Has changelogs cleaned, purges repartition topics, rewrites the files of stores.

    Args:
        budget_s: longest time, seconds; templated. Less where the window closes earlier.
        window: ``22:00-06:00`` in UTC, to which the budget is cut; empty cuts nothing; templated.
        least_bytes: changelogs of fewer bytes are left alone; templated.
        least_superfluous: share of superfluous records that makes a changelog worth it; templated.
        changelogs: clean changelogs; templated.
        repartition_topics: purge repartition topics; templated.
        stores: rewrite the files of stores; templated.
        kwargs: see :class:`MillraceOperationOperator`.
    """

    template_fields: Sequence[str] = (
        *MillraceOperationOperator.template_fields,
        "budget_s",
        "window",
        "least_bytes",
        "least_superfluous",
        "changelogs",
        "repartition_topics",
        "stores",
    )

    def __init__(
        self,
        *,
        budget_s: float | str = 600.0,
        window: str = "",
        least_bytes: int | str = 1 << 20,
        least_superfluous: float | str = 0.5,
        changelogs: bool | str = True,
        repartition_topics: bool | str = True,
        stores: bool | str = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.budget_s = budget_s
        self.window = window
        self.least_bytes = least_bytes
        self.least_superfluous = least_superfluous
        self.changelogs = changelogs
        self.repartition_topics = repartition_topics
        self.stores = stores

    def begin(self, hook: MillraceHook, *, dry_run: bool) -> Outcome:
        """Compact it."""
        from millrace.operations.compaction import CompactionOptions

        budget_s = float(self.budget_s)
        if self.window:
            left_s = OffPeakWindow.parse(self.window).seconds_left(datetime.now(UTC))
            if left_s is not None:
                budget_s = max(LEAST_BUDGET_S, min(budget_s, left_s))
        options = CompactionOptions(
            budget_s=budget_s,
            least_bytes=int(self.least_bytes),
            least_superfluous=float(self.least_superfluous),
            changelogs=is_true(self.changelogs),
            repartition_topics=is_true(self.repartition_topics),
            stores=is_true(self.stores),
        )
        return hook.compact(self.application, options, reason=self.reason, dry_run=dry_run, progress=self.log_progress)

    def facts(self, outcome: Outcome) -> Mapping[str, Any]:
        """Bytes of the cleaned changelogs before and after."""
        topics = outcome.results["check"]["topics"]
        for topic, sizes in topics.items():
            self.log.info("%s: %s bytes, before %s", topic, f"{sizes['after']:,}", f"{sizes['before']:,}")
        for topic, why in outcome.results["check"]["passed_over"].items():
            self.log.info("left alone: %s: %s", topic, why)
        return {
            "bytes_before": sum(sizes["before"] for sizes in topics.values()),
            "bytes_after": sum(sizes["after"] for sizes in topics.values()),
            "not_cleaned_in_time": list(outcome.results.get("wait-for-cleaner", {}).get("waiting", []))[:20],
        }

    def what_next(self, outcome: Outcome) -> str:
        """More time, where it was not enough."""
        waiting = outcome.results.get("wait-for-cleaner", {}).get("waiting", [])
        return f"give it a larger budget: {', '.join(waiting)} was not cleaned in time" if waiting else "nothing more"
