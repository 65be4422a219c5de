"""Plan what is done to an application, journal each step of it, and resume it where it was killed.

The journal and its execution are here, with what every operation returns (an :class:`Outcome` with an
:class:`Action`), and the operations themselves: stop and suspend, reset, savepoints, compaction, audit, dead-letter
records, standby copies, recovery drills, and the take-over from Kafka Streams. What brings an application to its
specification (deployment, upgrade, canary, reconcile) is in :mod:`millrace.supervise`.
"""

from millrace.operations.action import Action
from millrace.operations.execute import abandon, perform, resume, resume_or
from millrace.operations.journal import OperationRecord, OperationState, operations_of, unfinished_operation
from millrace.operations.operation import OperationPlan, Step, StepContext, operation
from millrace.operations.outcome import Outcome
from millrace.operations.recovery_drill import recovery_drill
from millrace.operations.requester import OperationStoppedError, Requester, on_behalf_of
from millrace.operations.stop import stop
from millrace.operations.suspend import suspend
from millrace.operations.take_over import take_over

__all__ = [
    "Action",
    "OperationPlan",
    "OperationRecord",
    "OperationState",
    "OperationStoppedError",
    "Outcome",
    "Requester",
    "Step",
    "StepContext",
    "abandon",
    "on_behalf_of",
    "operation",
    "operations_of",
    "perform",
    "recovery_drill",
    "resume",
    "resume_or",
    "stop",
    "suspend",
    "take_over",
    "unfinished_operation",
]
