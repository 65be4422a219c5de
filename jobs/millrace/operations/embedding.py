"""Steps of one operation as steps of another, which are journaled, resumed and killed one by one like any other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from millrace.operations.operation import OperationPlan, Step, StepContext

PlanOf = Callable[[StepContext], OperationPlan | None]
StepsOf = Callable[[OperationPlan], Sequence[Step]]


def embedded(prefix: str, steps: Sequence[tuple[str, str]], plan_of: PlanOf, steps_of: StepsOf) -> list[Step]:
    """Steps of another operation, under names of their own.

    Which of them there are, and what they decide, may be known only when steps before them have run: a step that the
    inner plan does not have does nothing.

    Args:
        prefix: of the names, for example ``savepoint`` for ``savepoint-copy``.
        steps: name and text of each inner step that there may be, in order.
        plan_of: the inner plan, from what the steps before have returned; ``None`` where none of it is to be done.
        steps_of: the steps of an inner plan.
    """

    def run(name: str) -> Callable[[StepContext], Mapping[str, Any] | None]:
        def do(context: StepContext) -> Mapping[str, Any] | None:
            plan = plan_of(context)
            if plan is None:
                return {"skipped": True}
            inner = {step.name: step for step in steps_of(plan)}
            if name not in inner:
                return {"skipped": True}
            start = f"{prefix}-"
            results = {
                key.removeprefix(start): value for key, value in context.results.items() if key.startswith(start)
            }
            return inner[name].run(replace(context, plan=plan, results=results))

        return do

    return [Step(name=f"{prefix}-{name}", text=text, run=run(name)) for name, text in steps]
