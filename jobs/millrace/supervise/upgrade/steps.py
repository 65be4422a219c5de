"""The steps of an upgrade and of a rollback."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from millrace.install.locks import application_lock
from millrace.install.spec import UpgradeMode
from millrace.install.which_spec import Use
from millrace.operations import OperationPlan, Step, StepContext, operation
from millrace.operations.action import Action
from millrace.supervise.readiness import discard_previous_good
from millrace.supervise.upgrade import driving, state
from millrace.supervise.upgrade.plan import ROLLBACK, UPGRADE, UpgradePlan
from millrace.supervise.upgrade.results import (
    BACK_FIT,
    BACK_LAUNCH,
    BACK_READY,
    BACK_STOP,
    LAUNCH,
    READY,
    Conclusion,
    DriverResult,
    FitResult,
    all_driver_results,
    driver_result,
    misfit,
)


@operation(UPGRADE)
def upgrade_steps(plan: OperationPlan) -> Sequence[Step]:
    """The steps of an upgrade."""
    return list(_upgrade(plan.application, UpgradePlan.of(plan)))


@operation(ROLLBACK)
def rollback_steps(plan: OperationPlan) -> Sequence[Step]:
    """The steps of a rollback that was asked for."""
    decided = UpgradePlan.of(plan)
    return [*_back(plan.application, decided, when=""), _conclude(decided)]


def _upgrade(name: str, decided: UpgradePlan) -> Iterator[Step]:
    if decided.savepoint is not None:
        yield from state.taking_a_savepoint(name, decided.savepoint)
    yield Step(
        name="stop",
        text=f"Stop what runs of {name}.",
        run=lambda context: driving.end(context, owner=decided.owner).to_json(),
    )
    if decided.mode is UpgradeMode.STATELESS:
        yield from state.giving_state_up("reset", decided.new.file(), Use.DEPLOYMENT)
    yield Step(
        name=LAUNCH,
        text=f"Launch it with specification {decided.new.hash}.",
        run=lambda context: _launch(context, decided).to_json(),
    )
    if decided.back is not None:
        yield Step(
            name=READY,
            text=f"Wait until it is healthy, up to {decided.ready_timeout_s:g} s after its launch.",
            run=lambda context: _ready(context, decided).to_json(),
        )
        yield from _back(name, decided, when="If it is not: ")
    yield _conclude(decided)


def _launch(context: StepContext, decided: UpgradePlan) -> DriverResult:
    taken = decided.savepoint.name if decided.savepoint else ""
    if decided.back is None:
        return driving.launch(context, decided.new.file(), savepoint=taken)
    return driving.launch_or_say_why(context, decided.new.file(), savepoint=taken)


def _ready(context: StepContext, decided: UpgradePlan) -> DriverResult:
    launched = driver_result(context, LAUNCH)
    assert launched is not None, "it comes after the launch"
    if launched.failed:
        return DriverResult(healthy=False, text=f"as it could not be launched: {launched.failed}")
    if launched.stopped:
        return DriverResult(healthy=False, stopped=True, text=driving.ASKED_TO_STOP)
    return driving.wait_until_healthy(context, timeout_s=decided.ready_timeout_s)


def _goes_back(context: StepContext) -> bool:
    """Whether the way back is taken: it was asked for, or the new one is not healthy; never where a stop was asked."""
    ready = driver_result(context, READY)
    if ready is not None and ready.healthy:
        return False
    return not any(result.stopped for result in all_driver_results(context))


def _misfits(context: StepContext) -> bool:
    return bool(misfit(context))


def _back(name: str, decided: UpgradePlan, *, when: str) -> Iterator[Step]:
    back = decided.back
    assert back is not None

    def step(name: str, text: str, run: Callable[[StepContext], DriverResult | FitResult]) -> Step:
        return Step(
            name=name,
            text=f"{when}{text}",
            run=lambda context: (run(context) if _goes_back(context) else DriverResult(skipped=True)).to_json(),
        )

    yield step(
        BACK_STOP,
        f"Stop what runs of {name}, and have supervision leave {decided.rejects} alone from then on.",
        lambda context: driving.go_back(context, back.file(), rejects=decided.rejects),
    )
    if decided.mode is not UpgradeMode.LAST_STATE:
        yield step(
            BACK_FIT,
            f"See whether its state still fits the topology of {back.hash}; if it does, it stays.",
            lambda _: FitResult(misfit=state.misfit(back.file())),
        )
    if decided.way_back:
        yield from state.restoring("rollback-restore", decided, when=when, is_wanted=_misfits)
    elif decided.mode is UpgradeMode.STATELESS:
        yield from state.giving_state_up(
            "rollback-reset", back.file(), Use.RUNNING, when=f"{when}Where it does not: ", is_wanted=_misfits
        )
    yield step(
        BACK_LAUNCH, f"Launch it with specification {back.hash}.", lambda context: driving.launch(context, back.file())
    )
    yield step(
        BACK_READY,
        "Wait until it is healthy.",
        lambda context: _ready_again(context, decided),
    )


def _ready_again(context: StepContext, decided: UpgradePlan) -> DriverResult:
    assert decided.back is not None
    result = driving.wait_until_healthy(context, timeout_s=decided.back.file().spec.health.readiness_timeout_s)
    if result.healthy:
        with application_lock(context.directory):
            discard_previous_good(context.directory, decided.new.hash)
    return result


def _conclude(decided: UpgradePlan) -> Step:
    return Step(
        name="conclude", text="Say what came of it.", run=lambda context: _conclusion(context, decided).to_json()
    )


def _conclusion(context: StepContext, decided: UpgradePlan) -> Conclusion:
    name, results = context.plan.application, all_driver_results(context)
    if (taken := next((result for result in results if result.fenced), None)) is not None:
        text = f"{name} is neither started again nor rolled back: {taken.text}"
        return Conclusion(action=Action.STOPPED, text=text)
    if any(result.stopped for result in results):
        return Conclusion(action=Action.STOPPED, text=f"{name} was asked to stop meanwhile, and stays stopped")
    ended = driver_result(context, BACK_READY)
    if ended is None or ended.skipped:
        text = context.plan.reason
        if decided.savepoint is not None:
            text += f"; before it, savepoint {decided.savepoint.name} was taken"
        return Conclusion(action=Action.UPGRADE, text=text)
    assert decided.back is not None
    happened = f"specification {decided.new.hash} was left as asked"
    if (ready := driver_result(context, READY)) is not None:
        happened = f"specification {decided.new.hash} was not healthy {ready.text}"
    if not ended.healthy:
        return Conclusion(
            action=Action.FAILED,
            text=f"{happened}. The last good one, {decided.back.hash}, was launched again and is not healthy either "
            f"{ended.text}. What to do: read {context.directory.log}; supervision goes on trying with "
            f"{decided.back.hash}",
        )
    return Conclusion(
        action=Action.ROLLED_BACK,
        text=f"{happened}. The last good one, {decided.back.hash}, runs again {_with_state(context, decided)}, and is "
        f"healthy. What to do: correct {context.application.spec_path}; supervision leaves {decided.rejects} alone "
        "until the file changes or is deployed again",
    )


def _with_state(context: StepContext, decided: UpgradePlan) -> str:
    found = misfit(context)
    if not found:
        return "on the state as it was"
    if decided.way_back:
        return (
            f"on savepoint {decided.way_back}, as the state did not fit it any more ({found}; input since then is "
            "processed again, and its results are written again)"
        )
    return f"with empty stores, as the state did not fit it any more ({found})"
