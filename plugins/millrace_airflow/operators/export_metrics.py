"""The operator of the metrics that no process serves."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException

from millrace_airflow.hooks.millrace import MillraceHook

PUSHGATEWAY_VARIABLE = "MILLRACE_PUSHGATEWAY"


class MillraceExportMetricsOperator(BaseOperator):  # type: ignore[misc]
    """Exports the metrics of all deployed applications to a Pushgateway or a text file.

    What could be had is exported even if the task fails: parts that could not be had are named at the end of its log.

    Args:
        pushgateway: address of a Pushgateway; empty writes to the text file. By default the one that the variable
            ``MILLRACE_PUSHGATEWAY`` of the worker's environment names. Templated.
        text_file: file that is replaced; empty takes ``prometheus/exported.prom`` of the installation. Templated.
        millrace_conn_id: see :class:`~millrace_airflow.hooks.millrace.MillraceHook`.
    """

    template_fields: Sequence[str] = ("pushgateway", "text_file")
    ui_color = "#d9ecd5"

    def __init__(
        self,
        *,
        pushgateway: str | None = None,
        text_file: str = "",
        millrace_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.pushgateway = pushgateway
        self.text_file = text_file
        self.millrace_conn_id = millrace_conn_id

    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Export."""
        pushgateway = os.environ.get(PUSHGATEWAY_VARIABLE, "") if self.pushgateway is None else self.pushgateway
        report = MillraceHook(self.millrace_conn_id).export_metrics(
            pushgateway=pushgateway.strip(), text_file=self.text_file.strip()
        )
        for each in report.applications:
            self.log.info("%s: %d series", each.application, len(each.samples))
        for name in report.removed:
            self.log.info("%s: removed, as it is gone", name)
        if report.problems:
            raise AirflowFailException("parts of the export could not be had: " + "; ".join(report.problems)[:2000])
        return report.summary()
