"""The outcome of an operation: what it did, or would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from millrace.install.application import Application
from millrace.install.files import strict_json
from millrace.launch.observation import Observation
from millrace.launch.observe import observe
from millrace.operations.action import Action


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of one operation on one application.

    Args:
        application: its name.
        operation: ``deploy``, ``stop``, ``reconcile``, ``reset``, ...
        action: what was decided, or came of it; what callers act on.
        text: why.
        dry_run: whether only the plan was made.
        steps: what was done, or would be done, in order.
        observation: what was seen afterwards, or before in a dry run.
        results: what the steps of a multi-step operation returned, by the name of the step.
    """

    application: str
    operation: str
    action: Action
    text: str
    dry_run: bool = False
    steps: tuple[str, ...] = ()
    observation: Observation | None = None
    results: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def observed(
        cls,
        application: Application,
        operation: str,
        action: Action,
        text: str,
        *,
        steps: tuple[str, ...] = (),
        dry_run: bool = False,
    ) -> Outcome:
        """Returns the outcome with what is observed of the job now; see the class.

        Raises:
            OperationError: the record of the job cannot be understood.
        """
        return cls(
            application=application.name,
            operation=operation,
            action=action,
            text=text,
            dry_run=dry_run,
            steps=steps,
            observation=observe(application),
        )

    @property
    def done(self) -> str:
        """The outcome as a word: that of the action, or the name of a multi-step operation."""
        return self.operation if self.action is Action.PERFORM else self.action.value

    def summary(self) -> dict[str, Any]:
        """Returns a small document of strict JSON."""
        return strict_json(  # type: ignore[no-any-return]
            {
                "application": self.application,
                "operation": self.operation,
                "action": self.done,
                "text": self.text[:1000],
                "dry_run": self.dry_run,
                "steps": [step[:500] for step in self.steps[:30]],
                "observation": self.observation.summary() if self.observation else None,
                "results": self.results,
            }
        )
