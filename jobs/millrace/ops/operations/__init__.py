"""Multi-step operations: planned first, journaled before and after each step, and resumed where a killed one was."""

from millrace.ops.operations.execute import abandon, perform, resume, resume_or
from millrace.ops.operations.journal import OperationRecord, OperationState, operations_of, unfinished_operation
from millrace.ops.operations.operation import OperationPlan, Step, StepContext, operation
from millrace.ops.operations.requester import OperationStoppedError, Requester, on_behalf_of

__all__ = [
    "OperationPlan",
    "OperationRecord",
    "OperationState",
    "OperationStoppedError",
    "Requester",
    "Step",
    "StepContext",
    "abandon",
    "on_behalf_of",
    "operation",
    "operations_of",
    "perform",
    "resume",
    "resume_or",
    "unfinished_operation",
]
