"""The health of an application, from its status alone, so that the driver and a supervisor agree. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from millrace.driver.lifecycle import ApplicationState
from millrace.driver.status import ApplicationStatus

_GRACE_S = 2.0
_FIRST_BATCH_S = 60.0


class HealthReason(StrEnum):
    """The reason why an application is, or is not, healthy."""

    WORKING = "working"
    PAUSED = "paused"
    STARTING = "starting"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    START_TIMEOUT = "start-timeout"
    HEARTBEAT_OVERDUE = "heartbeat-overdue"
    NO_PROGRESS = "no-progress"
    BROKER_UNREACHABLE = "broker-unreachable"
    NOT_COMMITTING = "not-committing"
    HELD_BACK = "held-back"


@dataclass(frozen=True, kw_only=True)
class HealthLimits:
    """The limits of health: the longest times that are still healthy.

    Args:
        heartbeat_s: longest age of the status, seconds, but at least three of the driver's own intervals.
        progress_s: longest time without progress while there is something to process or to restore, seconds, beside the
            time between two commits.
        start_s: longest time without progress (restores count) until the first query is active, seconds.
        broker_s: a broker that has not answered for so long is called unreachable, seconds, but at least two more than
            the driver's own interval.
        commit_s: without a commit for so long, although there is input, it is called not committing, seconds, but at
            least three times the longest of the last batches, and beside the time between two commits.
        held_back_s: behind an open transaction of the input for so long, it is called held back, seconds.
    """

    heartbeat_s: float = 30.0
    progress_s: float = 120.0
    start_s: float = 300.0
    broker_s: float = 5.0
    commit_s: float = 10.0
    held_back_s: float = 10.0


@dataclass(frozen=True, kw_only=True)
class Health:
    """The health of an application, with the reasons.

    Args:
        alive: whether to leave the driver alone; ``False`` asks for a restart (or, after a stop, finds nothing to do).
        ready: whether it processes what arrives.
        progressing: whether nothing prevents it from committing its input; ``False`` is no reason to
            restart it, but one to look.
        reason: why, as a code.
        text: why, in words.
    """

    alive: bool
    ready: bool
    reason: HealthReason
    text: str
    progressing: bool = True


def assess(status: ApplicationStatus, *, now: float, limits: HealthLimits) -> Health:
    """Judges the health of an application.

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
    stuck = _without_progress(status, now, limits.progress_s + status.commit_interval_ms / 1000)
    if stuck:
        return _unwell(HealthReason.NO_PROGRESS, stuck)
    if (stalled := _stalled(status, now, limits)) is not None:
        return stalled
    if status.state is ApplicationState.RUNNING:
        return Health(alive=True, ready=True, reason=HealthReason.WORKING, text=status.state.meaning)
    moved_at = max([status.started_at, *(each.last_progress_at or 0.0 for each in status.progress.values())])
    waited = now - moved_at
    if waited > limits.start_s and not any(each.active or each.batches for each in status.progress.values()):
        text = f"no query is active after {waited:.0f} s without progress; at most {limits.start_s:.0f} s are allowed"
        return _unwell(HealthReason.START_TIMEOUT, text)
    return _not_ready(HealthReason.STARTING, status.reason or status.state.meaning)


def _unwell(reason: HealthReason, text: str) -> Health:
    return Health(alive=False, ready=False, reason=reason, text=text, progressing=False)


def _stalled(status: ApplicationStatus, now: float, limits: HealthLimits) -> Health | None:
    """Returns the reason why a live application does not commit."""
    running = status.state is ApplicationState.RUNNING
    for reason, text in (
        (HealthReason.BROKER_UNREACHABLE, _broker_is_silent(status, now, limits)),
        (HealthReason.NOT_COMMITTING, _not_committing(status, now, limits) if running else ""),
        (HealthReason.HELD_BACK, _held_back(status, now, limits) if running else ""),
    ):
        if text:
            # One that is held back processes what it may read.
            ready = reason is HealthReason.HELD_BACK
            return Health(alive=True, ready=ready, reason=reason, text=text, progressing=False)
    return None


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


def _broker_is_silent(status: ApplicationStatus, now: float, limits: HealthLimits) -> str:
    if status.broker_answered_at is None:
        return ""
    age = now - status.broker_answered_at
    if age <= max(limits.broker_s, status.heartbeat_interval_ms / 1000 + _GRACE_S):
        return ""
    return f"no broker has answered for {age:.0f} s; {_last_commit(status, now)}"


def _not_committing(status: ApplicationStatus, now: float, limits: HealthLimits) -> str:
    for number, each in sorted(status.progress.items()):
        # Before the first batch nothing is known of how long one takes.
        limit = max(limits.commit_s, 3 * each.longest_batch_s) if each.batches else _FIRST_BATCH_S
        begun, ended = each.last_batch_started_at, each.last_batch_finished_at
        if begun is not None and (ended is None or begun > ended) and now - begun > limit:
            usual = f"; the longest of the last ones took {each.longest_batch_s:.1f} s" if each.batches else ""
            return (
                f"a batch of sub-topology {number} has run for {now - begun:.0f} s{usual}; {_last_commit(status, now)}"
            )
        if each.lag_since is not None and each.lag:
            since = max(each.lag_since, each.last_progress_at or 0.0)
            if now - since > limit + status.commit_interval_ms / 1000:
                return (
                    f"{each.lag} records wait for sub-topology {number}, which has committed nothing for "
                    f"{now - since:.0f} s"
                )
    return ""


def _held_back(status: ApplicationStatus, now: float, limits: HealthLimits) -> str:
    partitions = {
        topic_partition: (end, now - end.held_back_since)
        for topic_partition, end in status.held_back.items()
        if end.held_back_since is not None and now - end.held_back_since > limits.held_back_s
    }
    if not partitions:
        return ""
    (topic, partition), (end, age) = max(partitions.items(), key=lambda item: item[1][1])
    others = f" (and in {len(partitions) - 1} more)" if len(partitions) > 1 else ""
    return (
        f"held back for {age:.0f} s at offset {end.last_stable} of {topic}-{partition}{others}: an open transaction of "
        f"who writes it keeps {end.high_watermark - end.last_stable} offsets behind it from being read"
    )


def _last_commit(status: ApplicationStatus, now: float) -> str:
    last = status.last_commit_at
    return "nothing was committed yet" if last is None else f"the last commit was {now - last:.0f} s ago"
