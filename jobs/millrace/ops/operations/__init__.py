"""Operations in steps: planned first, journaled before and after each step, and resumed where a killed one was."""

from millrace.ops.operations.execute import abandon, perform, resume
from millrace.ops.operations.journal import OperationRecord, OperationState, operations_of, unfinished_operation
from millrace.ops.operations.operation import OperationPlan, Step, StepContext, operation

__all__ = [
    "OperationPlan",
    "OperationRecord",
    "OperationState",
    "Step",
    "StepContext",
    "abandon",
    "operation",
    "operations_of",
    "perform",
    "resume",
    "unfinished_operation",
]
