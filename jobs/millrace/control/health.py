"""Whether an application is well: from its status alone, so that the driver and a supervisor judge alike. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from millrace.control.lifecycle import ApplicationState
from millrace.control.status import ApplicationStatus


class HealthReason(StrEnum):
    """Why an application is, or is not, well."""

    WORKING = "working"
    PAUSED = "paused"
    STARTING = "starting"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    START_TIMEOUT = "start-timeout"
    HEARTBEAT_OVERDUE = "heartbeat-overdue"
    NO_PROGRESS = "no-progress"


@dataclass(frozen=True, kw_only=True)
class HealthLimits:
    """How long things may take.

    Args:
        heartbeat_s: longest age of the status, seconds, but at least three of the driver's own intervals.
        progress_s: longest time without progress while there is something to process or to restore, seconds.
        start_s: longest time without progress (restores count) until the first query is active, seconds.
    """

    heartbeat_s: float = 30.0
    progress_s: float = 120.0
    start_s: float = 300.0


@dataclass(frozen=True, kw_only=True)
class Health:
    """A judgement.

    Args:
        alive: whether to leave the driver alone; ``False`` asks for a restart (or, after a stop, finds nothing to do).
        ready: whether it processes what arrives.
        reason: why, as a code.
        text: why, in words.
    """

    alive: bool
    ready: bool
    reason: HealthReason
    text: str


def assess(status: ApplicationStatus, *, now: float, limits: HealthLimits) -> Health:
    """Judges an application.

    Alive but without progress, while there has been lag (or a restore) for longer than the limit, is unhealthy: a
    driver that hangs, or a query whose batch never ends, looks well in every other way. The time counts from when the
    lag began or from the last progress, whichever is later, so an idle application that gets its first record is well.

    Args:
        status: as the driver has it, or as the status topic has it.
        now: seconds since the epoch.
        limits: how long things may take.
    """
    state = status.state
    if state.has_ended:
        failed = state is ApplicationState.ERROR
        return _unwell(HealthReason.FAILED if failed else HealthReason.STOPPED, status.reason or state.meaning)
    overdue = _heartbeat_overdue(status, now, limits)
    if overdue:
        return _unwell(HealthReason.HEARTBEAT_OVERDUE, overdue)
    if state.is_ending:
        return _not_ready(HealthReason.STOPPING, status.reason or state.meaning)
    if status.paused:
        return _not_ready(HealthReason.PAUSED, "paused on request")
    return _assess_working(status, now, limits)


def _assess_working(status: ApplicationStatus, now: float, limits: HealthLimits) -> Health:
    stuck = _without_progress(status, now, limits.progress_s)
    if stuck:
        return _unwell(HealthReason.NO_PROGRESS, stuck)
    if status.state is ApplicationState.RUNNING:
        return Health(alive=True, ready=True, reason=HealthReason.WORKING, text=status.state.meaning)
    moved_at = max([status.started_at, *(each.last_progress_at or 0.0 for each in status.progress.values())])
    waited = now - moved_at
    if waited > limits.start_s and not any(each.active or each.batches for each in status.progress.values()):
        text = f"no query is active after {waited:.0f} s without progress; at most {limits.start_s:.0f} s are allowed"
        return _unwell(HealthReason.START_TIMEOUT, text)
    return _not_ready(HealthReason.STARTING, status.reason or status.state.meaning)


def _unwell(reason: HealthReason, text: str) -> Health:
    return Health(alive=False, ready=False, reason=reason, text=text)


def _not_ready(reason: HealthReason, text: str) -> Health:
    return Health(alive=True, ready=False, reason=reason, text=text)


def _heartbeat_overdue(status: ApplicationStatus, now: float, limits: HealthLimits) -> str:
    limit = max(limits.heartbeat_s, 3 * status.heartbeat_interval_ms / 1000)
    age = now - status.updated_at
    return f"the last heartbeat is {age:.0f} s old; at most {limit:.0f} s are allowed" if age > limit else ""


def _without_progress(status: ApplicationStatus, now: float, limit_s: float) -> str:
    for number, each in sorted(status.progress.items()):
        if each.lag_since is None:
            continue
        since = max(each.lag_since, each.last_progress_at or 0.0)
        if now - since > limit_s:
            behind = f"{each.lag} records behind" if each.lag else "restoring"
            return (
                f"sub-topology {number} is {behind} and has made no progress for {now - since:.0f} s; "
                f"at most {limit_s:.0f} s are allowed"
            )
    return ""
