"""What the steps of an upgrade that end, launch or wait for the driver return, and what the whole came to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from millrace.operations import StepContext
from millrace.operations.action import Action

READY = "ready"
LAUNCH = "launch"
BACK_STOP = "rollback-stop"
BACK_FIT = "rollback-fit"
BACK_LAUNCH = "rollback-launch"
BACK_READY = "rollback-ready"
_OF_DRIVER = (LAUNCH, READY, BACK_STOP, BACK_LAUNCH, BACK_READY)


class DriverResult(BaseModel):
    """The result of one step, as the journal has it.

    Args:
        skipped: the step was not wanted.
        steps: what was done to end the driver.
        driver: name of the driver that was launched.
        failed: why it could not be launched; empty where it could.
        healthy: whether it was proven; none for steps that do not wait for that.
        stopped: whether the application was asked to stop meanwhile, or another installation has taken it over.
        fenced: whether it is the latter.
        text: what was seen.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    skipped: bool = False
    steps: tuple[str, ...] = ()
    driver: str | None = None
    failed: str = ""
    healthy: bool | None = None
    stopped: bool = False
    fenced: bool = False
    text: str = ""

    def to_json(self) -> dict[str, Any]:
        """For the journal."""
        return self.model_dump(mode="json", exclude_defaults=True)


class FitResult(BaseModel):
    """Whether the state still fits the topology that is gone back to.

    Args:
        misfit: what does not fit; empty where everything does, or nobody looked.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    misfit: str = ""

    def to_json(self) -> dict[str, Any]:
        """For the journal."""
        return self.model_dump(mode="json")


class Conclusion(BaseModel):
    """What an upgrade or a rollback came to.

    Args:
        action: ``UPGRADE``, ``ROLLED_BACK``, ``STOPPED`` or ``FAILED``.
        text: what happened, and what to do.
    """

    model_config = ConfigDict(frozen=True)

    action: Action
    text: str

    def to_json(self) -> dict[str, Any]:
        """For the journal."""
        return self.model_dump(mode="json")


def driver_result(context: StepContext, step: str) -> DriverResult | None:
    """The result of a step; none where it has not run or there is none of that name."""
    return _parsed(context.results, step)


def all_driver_results(context: StepContext) -> list[DriverResult]:
    """The results of all steps that have to do with the driver, in their order."""
    return [result for step in _OF_DRIVER if (result := _parsed(context.results, step)) is not None]


def misfit(context: StepContext) -> str:
    """What of the state does not fit what is gone back to; empty where all does, or nobody looked."""
    return FitResult.model_validate(context.results.get(BACK_FIT, {})).misfit


def _parsed(results: Mapping[str, Mapping[str, Any]], step: str) -> DriverResult | None:
    return None if step not in results else DriverResult.model_validate(results[step])
