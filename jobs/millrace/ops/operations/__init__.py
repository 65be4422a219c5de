"""Operations in steps: planned first, journaled before and after each step, and resumed where a killed one was."""

from millrace.ops.operations.caller import Caller, OperationStoppedError, called_by
from millrace.ops.operations.execute import abandon, carry_on_or, perform, resume
from millrace.ops.operations.journal import OperationRecord, OperationState, operations_of, unfinished_operation
from millrace.ops.operations.operation import OperationPlan, Step, StepContext, operation

__all__ = [
    "Caller",
    "OperationPlan",
    "OperationRecord",
    "OperationState",
    "OperationStoppedError",
    "Step",
    "StepContext",
    "abandon",
    "called_by",
    "carry_on_or",
    "operation",
    "operations_of",
    "perform",
    "resume",
    "unfinished_operation",
]
