"""What an operation is: a plan with every decision in it, and steps that execute it, each safe to repeat."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from millrace.errors import OperationError
from millrace.install.application import Application
from millrace.install.home import ApplicationDirectory, Home

REGISTERING_MODULES: tuple[str, ...] = (
    "millrace.operations.compaction.compact",
    "millrace.operations.reset.steps",
    "millrace.operations.savepoints.create",
    "millrace.operations.savepoints.restore",
    "millrace.operations.dead_letters.purge",
    "millrace.operations.dead_letters.replay",
    "millrace.supervise.upgrade.steps",
    "millrace.supervise.canary.start",
    "millrace.supervise.canary.drop",
)
"""Modules that register operations, imported only when a plan is to be executed.

By name, since those of ``supervise`` are above this package, and a journal that is resumed may be of one of them.
"""


@dataclass(frozen=True, kw_only=True)
class OperationPlan:
    """All that an operation has decided before it changes anything.

    Args:
        operation: its kind, for example ``reset``.
        application: name of the application.
        reason: why, for the journal.
        decisions: what was decided, as JSON: offsets, topics, directories. A resumed operation uses these and decides
            nothing again.
        holds_application: whether the application must not be started until the operation has ended.
    """

    operation: str
    application: str
    reason: str
    decisions: Mapping[str, Any] = field(default_factory=dict)
    holds_application: bool = False


@dataclass(frozen=True, kw_only=True)
class StepContext:
    """What a step is given.

    Args:
        home: the installation.
        id: the operation's id; :func:`millrace.supervise.deploy` and the like take it, so that they are not refused.
        plan: what was decided.
        results: what the steps before returned, by the name of the step.
        progress: takes a line that says how far a long step is.
    """

    home: Home
    id: str
    plan: OperationPlan
    results: Mapping[str, Mapping[str, Any]]
    progress: Callable[[str], None]

    @property
    def application(self) -> Application:
        """The application that the operation is about."""
        return Application(self.home, self.plan.application)

    @property
    def directory(self) -> ApplicationDirectory:
        """The application's directory."""
        return self.application.directory


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step.

    Args:
        name: short, of small letters and hyphens; unique within the operation.
        text: what it does, as an order, with what it touches: what a dry run prints.
        run: does it, and returns what is worth knowing as JSON. A step that was killed midway runs again, so that it
            must find out for itself what is done already.
    """

    name: str
    text: str
    run: Callable[[StepContext], Mapping[str, Any] | None]


Steps = Callable[[OperationPlan], Sequence[Step]]
_KINDS: dict[str, Steps] = {}


def operation(kind: str) -> Callable[[Steps], Steps]:
    """Registers the function that makes the steps of a plan of this kind; it must be pure."""

    def register(steps: Steps) -> Steps:
        _KINDS[kind] = steps
        return steps

    return register


def steps_of(plan: OperationPlan) -> Sequence[Step]:
    """The steps of a plan.

    Raises:
        OperationError: this version of Millrace knows no such operation.
    """
    for module in REGISTERING_MODULES:
        importlib.import_module(module)
    if plan.operation not in _KINDS:
        raise OperationError(
            f"This version of Millrace knows no operation {plan.operation!r}.",
            remedy="resume it with the version that began it",
        )
    return _KINDS[plan.operation](plan)
