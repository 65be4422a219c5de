"""Operators."""

from millrace_airflow.operators.applications import MillraceApplicationsOperator
from millrace_airflow.operators.audit import MillraceAuditOperator
from millrace_airflow.operators.canary import MillraceCanaryOperator
from millrace_airflow.operators.compact import MillraceCompactOperator
from millrace_airflow.operators.dead_letters import MillraceReplayOperator
from millrace_airflow.operators.deploy import EnsureSupervisedOperator, MillraceDeployOperator
from millrace_airflow.operators.export_metrics import MillraceExportMetricsOperator
from millrace_airflow.operators.operation import MillraceOperationOperator
from millrace_airflow.operators.operations import MillraceOperationsOperator
from millrace_airflow.operators.preflight import MillracePreflightOperator
from millrace_airflow.operators.reconcile import MillraceReconcileOperator
from millrace_airflow.operators.recovery_drill import MillraceRecoveryDrillOperator
from millrace_airflow.operators.reset import MillraceResetOperator
from millrace_airflow.operators.savepoint import MillraceRestoreOperator, MillraceSavepointOperator
from millrace_airflow.operators.stop import MillraceStopOperator
from millrace_airflow.operators.stream_assets import MillraceStreamAssetsOperator
from millrace_airflow.operators.supervise import MillraceSuperviseOperator

__all__ = [
    "EnsureSupervisedOperator",
    "MillraceApplicationsOperator",
    "MillraceAuditOperator",
    "MillraceCanaryOperator",
    "MillraceCompactOperator",
    "MillraceDeployOperator",
    "MillraceExportMetricsOperator",
    "MillraceOperationOperator",
    "MillraceOperationsOperator",
    "MillracePreflightOperator",
    "MillraceReconcileOperator",
    "MillraceRecoveryDrillOperator",
    "MillraceReplayOperator",
    "MillraceResetOperator",
    "MillraceRestoreOperator",
    "MillraceSavepointOperator",
    "MillraceStopOperator",
    "MillraceStreamAssetsOperator",
    "MillraceSuperviseOperator",
]
