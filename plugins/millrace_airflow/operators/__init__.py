"""Operators."""

from millrace_airflow.operators.deploy import EnsureSupervisedOperator, MillraceDeployOperator
from millrace_airflow.operators.reconcile import MillraceReconcileOperator
from millrace_airflow.operators.recovery_drill import MillraceRecoveryDrillOperator
from millrace_airflow.operators.stop import MillraceStopOperator
from millrace_airflow.operators.supervise import MillraceSuperviseOperator

__all__ = [
    "EnsureSupervisedOperator",
    "MillraceDeployOperator",
    "MillraceReconcileOperator",
    "MillraceRecoveryDrillOperator",
    "MillraceStopOperator",
    "MillraceSuperviseOperator",
]
