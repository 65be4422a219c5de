"""Say what is to be known of applications, for pages, Prometheus and plans, and change nothing.

The overview that pages show, the export of metrics that no process serves, positions of outputs, how long a
restoration would take, the permissions that an application needs, and what it will need under an expected load. The
verdict on one driver, which supervision acts on, is in :mod:`millrace.launch`.
"""

from millrace.insight.recovery import RecoveryEstimate, recovery_estimate

__all__ = [
    "RecoveryEstimate",
    "recovery_estimate",
]
