"""Operators."""

from millrace_airflow.operators.deploy import EnsureSupervisedOperator, MillraceDeployOperator
from millrace_airflow.operators.export_metrics import MillraceExportMetricsOperator
from millrace_airflow.operators.reconcile import MillraceReconcileOperator
from millrace_airflow.operators.stop import MillraceStopOperator
from millrace_airflow.operators.supervise import MillraceSuperviseOperator

__all__ = [
    "EnsureSupervisedOperator",
    "MillraceDeployOperator",
    "MillraceExportMetricsOperator",
    "MillraceReconcileOperator",
    "MillraceStopOperator",
    "MillraceSuperviseOperator",
]
