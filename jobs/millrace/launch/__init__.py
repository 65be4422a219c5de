"""Check what a driver needs, start its process, ask and observe it, and end it.

Everything here is about one driver and what is known of it now: its code, its answers, its last words, the verdict on
it. What is done to an application in journaled steps is in :mod:`millrace.operations`, what decides that a driver
starts again in :mod:`millrace.supervise`, and how a process, a pod or an application of YARN comes up in
:mod:`millrace.install.launchers`.
"""

from millrace.launch.checks import Check, Report
from millrace.launch.observation import Observation, Reason, Verdict
from millrace.launch.observe import observe
from millrace.launch.preflight import preflight

__all__ = [
    "Check",
    "Observation",
    "Reason",
    "Report",
    "Verdict",
    "observe",
    "preflight",
]
