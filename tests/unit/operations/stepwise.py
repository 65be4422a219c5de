"""An operation for tests that writes a line for each step that it runs; run as a process of its own to be killed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from millrace.errors import OperationError
from millrace.install.home import Home
from millrace.operations import OperationPlan, Step, StepContext, operation, perform

STEPS = ("first", "second", "third")


@operation("stepwise")
def _steps(plan: OperationPlan) -> Sequence[Step]:
    def run(name: str) -> Step:
        def do(context: StepContext) -> dict[str, int]:
            diary = Path(context.plan.decisions["diary"])
            if context.plan.decisions.get("fails_at") == name and not diary.with_suffix(".fixed").exists():
                raise OperationError(f"{name} does not work.", remedy="fix it")
            with diary.open("a") as file:
                file.write(f"{name} after {','.join(context.results)}\n")
            return {"number": STEPS.index(name)}

        return Step(name=name, text=f"Do the {name} thing.", run=do)

    return [run(name) for name in STEPS]


def plan_of(diary: Path, *, holds: bool = True, **decisions: object) -> OperationPlan:
    return OperationPlan(
        operation="stepwise",
        application="payments",
        reason="a test",
        decisions={"diary": str(diary), **decisions},
        holds_application=holds,
    )


if __name__ == "__main__":
    perform(Home.at(Path(sys.argv[1])), plan_of(Path(sys.argv[2])))
