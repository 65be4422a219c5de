"""Operations on applications as plain functions: each has a dry run, a journal line and a check afterwards."""

from millrace.install.application import Application
from millrace.install.home import ApplicationDirectory, Home
from millrace.install.record import JobRecord, StopCause, read_record
from millrace.install.spec import ApplicationSpec, UpgradeMode, load_spec, load_specs
from millrace.ops.action import Action
from millrace.ops.checks import Check, Report
from millrace.ops.deploy import deploy
from millrace.ops.observe import Observation, Reason, Verdict, observe
from millrace.ops.outcome import Outcome
from millrace.ops.preflight import preflight
from millrace.ops.readiness import wait_until_ready
from millrace.ops.reconcile import reconcile, reconcile_all
from millrace.ops.recovery import RecoveryEstimate, recovery_estimate
from millrace.ops.recovery_drill import recovery_drill
from millrace.ops.stop import stop
from millrace.ops.take_over import take_over
from millrace.ops.upgrade import rollback

__all__ = [
    "Action",
    "Application",
    "ApplicationDirectory",
    "ApplicationSpec",
    "Check",
    "Home",
    "JobRecord",
    "Observation",
    "Outcome",
    "Reason",
    "RecoveryEstimate",
    "Report",
    "StopCause",
    "UpgradeMode",
    "Verdict",
    "deploy",
    "load_spec",
    "load_specs",
    "observe",
    "preflight",
    "read_record",
    "reconcile",
    "reconcile_all",
    "recovery_drill",
    "recovery_estimate",
    "rollback",
    "stop",
    "take_over",
    "wait_until_ready",
]
