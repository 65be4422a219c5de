"""The operator of the metrics that no process serves."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from millrace_airflow.hooks.millrace import MillraceHook
from millrace_airflow.operators.base import MillraceOperator, failure

PUSHGATEWAY_VARIABLE = "MILLRACE_PUSHGATEWAY"


class MillraceExportMetricsOperator(MillraceOperator):
    """Exports the metrics of all deployed applications to a Pushgateway or a text file.

    What could be had is exported even if the task fails: parts that could not be had are named at the end of its log.

    Args:
        pushgateway: address of a Pushgateway; empty writes to the text file. By default the one that the variable
            ``MILLRACE_PUSHGATEWAY`` of the worker's environment names. Templated.
        text_file: file that is replaced; empty takes ``prometheus/exported.prom`` of the installation. Templated.
        kwargs: see :class:`~millrace_airflow.operators.base.MillraceOperator`.
    """

    template_fields: Sequence[str] = ("pushgateway", "text_file")
    ui_color = "#d9ecd5"

    def __init__(self, *, pushgateway: str | None = None, text_file: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pushgateway = pushgateway
        self.text_file = text_file

    def act(self, hook: MillraceHook, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Export."""
        pushgateway = os.environ.get(PUSHGATEWAY_VARIABLE, "") if self.pushgateway is None else self.pushgateway
        report = hook.export_metrics(pushgateway=pushgateway.strip(), text_file=self.text_file.strip())
        for each in report.applications:
            self.log.info("%s: %d series", each.application, len(each.samples))
        for name in report.removed:
            self.log.info("%s: removed, as it is gone", name)
        if report.problems:
            problems = "; ".join(report.problems)[:2000]
            raise failure(
                f"Everything else was exported, but this could not be had: {problems}.",
                "fix what is named, for example a broker that does not answer; the next run tries again",
                is_final=True,
            )
        return report.summary()
