"""Decide: from an observation and the specification to the one thing that should be done now. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from millrace.install.record import DesiredState, JobRecord
from millrace.install.spec import RunState, SpecFile
from millrace.launch.observation import Observation, Reason, Verdict
from millrace.operations.action import Action


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What to do and why.

    Args:
        action: what to do.
        text: why, in words.
        not_before: with ``WAIT``: when to look again, seconds since the epoch.
        restarts: with ``RESTART``: how many restarts in a row this one makes.
    """

    action: Action
    text: str
    not_before: float = 0.0
    restarts: int = 0


def decide(observation: Observation, record: JobRecord | None, spec: SpecFile | None, *, now: float) -> Decision:
    """The next step towards the desired state.

    A job that was never deployed, or was asked to stop, is left alone: only a deployment starts it.

    Args:
        observation: what was seen.
        record: the job's record.
        spec: the desired specification, else the last good one, else none.
        now: seconds since the epoch.
    """
    nothing = Decision(action=Action.NOTHING, text=observation.text)
    if record is None:
        return nothing
    if record.desired is DesiredState.STOPPED or spec is None:
        return _towards_stop(observation, record)
    if spec.spec.state is RunState.SUSPENDED and observation.verdict is not Verdict.STOPPED:
        return Decision(action=Action.STOP, text="its specification says suspended")
    changed = record.spec_hash not in {"", spec.hash} and spec.spec.state is RunState.RUNNING
    # Starting a fenced one would fence the one that has taken over, whose supervision would start that one again.
    if changed and observation.verdict is not Verdict.FENCED:
        if now < record.not_before:
            return Decision(action=Action.WAIT, text=record.last_reason, not_before=record.not_before)
        return Decision(action=Action.UPGRADE, text="its specification changed")
    return _restart(observation, record, spec, now) if observation.verdict.needs_restart else nothing


def _towards_stop(observation: Observation, record: JobRecord) -> Decision:
    if record.desired is DesiredState.RUNNING:
        return Decision(action=Action.NOTHING, text="it has no valid specification")
    if observation.reason is Reason.STOPPING:
        return Decision(action=Action.STOP, text="it was asked to stop and its process lives")
    return Decision(action=Action.NOTHING, text=observation.text)


def _restart(observation: Observation, record: JobRecord, spec: SpecFile, now: float) -> Decision:
    policy = spec.spec.restart
    restarts = 0 if now - record.launched_at >= policy.reset_after_s else record.restarts
    if restarts >= policy.max_attempts:
        return Decision(
            action=Action.GIVE_UP,
            text=f"{observation.text}; {restarts} restarts in a row did not help (limit {policy.max_attempts})",
        )
    not_before = max(record.not_before, record.launched_at + policy.backoff_s(restarts))
    if now < not_before:
        return Decision(
            action=Action.WAIT,
            text=f"{observation.text}; restart {restarts + 1} comes in {not_before - now:.1f} s",
            not_before=not_before,
        )
    return Decision(action=Action.RESTART, text=f"{observation.reason}: {observation.text}", restarts=restarts + 1)
