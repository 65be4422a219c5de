"""Judge: from what the files and the cluster say, and what the driver answered, to an observation. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from millrace.driver.ending import ExitCode
from millrace.driver.health import HealthLimits, HealthReason, assess
from millrace.install.home import ApplicationDirectory
from millrace.install.launchers.instance import Presence, Probe
from millrace.install.record import DesiredState, JobRecord
from millrace.install.spec import ApplicationSpec, HealthSettings, RunState, SpecFile
from millrace.launch.control_client import Answer, AnswerKind
from millrace.launch.last_heard import LastHeard, last_words
from millrace.launch.observation import Observation, Reason, Verdict

WORST_PARTITIONS = 5


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the files say, and the kernel or the cluster, before the driver is asked.

    Args:
        application: its name.
        directory: its files.
        record: its record, if it was deployed.
        probe_result: what is to be seen of the record's driver; none where none was launched.
        spec: the specification of the next start: the desired one if it is valid, else that of the last launch, else
            none.
        spec_error: what is wrong with the desired specification.
        launched: the specification of the last launch, by which what runs is judged; none where it cannot be read.
        last_words: what its log says last, where it is gone.
        note: one line, where the desired one and that of the last launch differ.
        code_note: one line, where the code has changed since the last launch.
        unanswered_since: as the last observation had it.
        heard: what the driver said last, as far as observations or the status topic tell.
    """

    application: str
    directory: ApplicationDirectory
    record: JobRecord | None
    probe_result: Probe | None
    spec: SpecFile | None
    spec_error: str
    unanswered_since: float | None
    heard: LastHeard | None = None
    launched: SpecFile | None = None
    last_words: str = ""
    note: str = ""
    code_note: str = ""

    @property
    def judged_by(self) -> SpecFile | None:
        """The specification whose limits of health hold for the driver."""
        return self.launched or self.spec


def judge(evidence: Evidence, answer: Answer | None, *, now: float) -> Observation:
    """What to think of a job. Pure.

    Args:
        evidence: what :func:`collect_evidence` saw.
        answer: what the driver said; none where its process is not there to be asked.
        now: seconds since the epoch.
    """
    shortage = answer.status.shortage if answer is not None and answer.status is not None else ""
    notes = (evidence.spec_error, evidence.note, evidence.code_note, shortage)
    note = "; ".join(dict.fromkeys(filter(None, notes)))
    return replace(_judged(evidence, answer, now), note=note)


def _judged(evidence: Evidence, answer: Answer | None, now: float) -> Observation:
    record = evidence.record
    if record is None:
        return Observation(
            application=evidence.application,
            verdict=Verdict.NOT_DEPLOYED,
            reason=Reason.NO_RECORD,
            text="it was never deployed here",
            at=now,
        )
    probe_result = evidence.probe_result
    if probe_result is not None and probe_result.presence is Presence.UNKNOWN:
        return _observation(record, Verdict.WAITING, Reason.CLUSTER_UNREACHABLE, probe_result.text, now=now)
    if probe_result is None or probe_result.presence is not Presence.ALIVE:
        return _without_driver(evidence, record, probe_result, now)
    return replace(_of_living(evidence, record, answer, now), control=probe_result.control)


def _of_living(evidence: Evidence, record: JobRecord, answer: Answer | None, now: float) -> Observation:
    if record.desired is DesiredState.STOPPED:
        return _observation(record, Verdict.WAITING, Reason.STOPPING, "it was asked to stop", now=now)
    seen = _of_asked(evidence, record, answer, now)
    stopped = evidence.probe_result.stopped if evidence.probe_result is not None else ""
    if not stopped or seen.verdict.needs_restart:
        return seen
    text = stopped if seen.verdict is Verdict.HEALTHY else f"{stopped}; {seen.text}"
    return replace(seen, verdict=Verdict.STALLED, reason=Reason.PROCESS_STOPPED, text=text)


def _of_asked(evidence: Evidence, record: JobRecord, answer: Answer | None, now: float) -> Observation:
    judged_by = evidence.judged_by
    if answer is None or judged_by is None:
        return _observation(record, Verdict.WAITING, Reason.STARTING, evidence.spec_error or "not asked yet", now=now)
    if answer.status is None:
        return _without_status(evidence, judged_by.spec.health, record, answer, now)
    return _with_status(judged_by.spec, record, answer, now)


def _observation(
    record: JobRecord, verdict: Verdict, reason: Reason, text: str, *, now: float, **more: Any
) -> Observation:
    return Observation(
        application=record.application,
        verdict=verdict,
        reason=reason,
        text=text,
        driver=record.driver,
        owner=record.owner,
        desired=record.desired,
        restarts=record.restarts,
        at=now,
        **more,
    )


def _without_driver(evidence: Evidence, record: JobRecord, probe_result: Probe | None, now: float) -> Observation:
    def seen(verdict: Verdict, reason: Reason, text: str, remedy: str = "") -> Observation:
        return _observation(record, verdict, reason, text, now=now, remedy=remedy, heard=evidence.heard)

    if record.desired is DesiredState.STOPPED:
        return seen(Verdict.STOPPED, Reason.STOPPED_AS_ASKED, record.last_reason or "it was asked to stop")
    if evidence.spec is not None and evidence.spec.spec.state is RunState.SUSPENDED:
        return seen(Verdict.STOPPED, Reason.SUSPENDED, "its specification says suspended")
    if probe_result is None:
        return seen(Verdict.DEAD, Reason.NEVER_LAUNCHED, "it should run and was never launched")
    if (ending := probe_result.ending) is None:
        taken = probe_result.presence is Presence.TAKEN
        words = f"; its log ends with: {evidence.last_words}" if evidence.last_words else ""
        return seen(Verdict.DEAD, Reason.PID_TAKEN if taken else Reason.PROCESS_DIED, f"{probe_result.text}{words}")
    if ending.exit_code == ExitCode.FENCED:
        return seen(Verdict.FENCED, Reason.FENCED, ending.reason, ending.remedy)
    reason = Reason.ENDED_BY_ITSELF if ending.exit_code == ExitCode.STOPPED else Reason.ENDED_IN_ERROR
    return seen(Verdict.DEAD, reason, ending.reason, ending.remedy)


def _without_status(
    evidence: Evidence, limits: HealthSettings, record: JobRecord, answer: Answer, now: float
) -> Observation:
    if answer.kind is AnswerKind.UNREADABLE:
        return _observation(record, Verdict.WAITING, Reason.STATUS_UNREADABLE, answer.detail, now=now)
    if answer.kind is AnswerKind.NOT_UP:
        waited = now - record.launched_at
        if waited > limits.readiness_timeout_s:
            text = f"{answer.detail}, {waited:.0f} s after its launch (limit {limits.readiness_timeout_s:g} s)"
            return _observation(record, Verdict.UNHEALTHY, Reason.START_TIMEOUT, text, now=now)
        return _observation(record, Verdict.WAITING, Reason.STARTING, answer.detail, now=now)
    since = evidence.unanswered_since if evidence.unanswered_since is not None else now
    silent, heard = now - since, evidence.heard
    more = {"unanswered_since": since, "heard": heard, "last_commit_at": heard.last_commit_at if heard else None}
    last = f"; {last_words(heard, now)}" if heard is not None else ""
    if silent > limits.no_answer_timeout_s:
        text = f"no answer for {silent:.0f} s (limit {limits.no_answer_timeout_s:g} s): {answer.detail}{last}"
        return _observation(record, Verdict.UNHEALTHY, Reason.HUNG, text, now=now, **more)
    return _observation(record, Verdict.STALLED, Reason.NO_ANSWER, f"{answer.detail}{last}", now=now, **more)


_REASONS = {
    HealthReason.WORKING: (Verdict.HEALTHY, Reason.WORKING),
    HealthReason.PAUSED: (Verdict.HEALTHY, Reason.PAUSED),
    HealthReason.STARTING: (Verdict.WAITING, Reason.STARTING),
    HealthReason.STOPPING: (Verdict.WAITING, Reason.STOPPING),
    HealthReason.STOPPED: (Verdict.UNHEALTHY, Reason.ENDED_BY_ITSELF),
    HealthReason.FAILED: (Verdict.UNHEALTHY, Reason.ENDED_IN_ERROR),
    HealthReason.START_TIMEOUT: (Verdict.UNHEALTHY, Reason.START_TIMEOUT),
    HealthReason.HEARTBEAT_OVERDUE: (Verdict.UNHEALTHY, Reason.HEARTBEAT_OVERDUE),
    HealthReason.NO_PROGRESS: (Verdict.UNHEALTHY, Reason.NO_PROGRESS),
    HealthReason.BROKER_UNREACHABLE: (Verdict.STALLED, Reason.BROKER_UNREACHABLE),
    HealthReason.NOT_COMMITTING: (Verdict.STALLED, Reason.NOT_COMMITTING),
    HealthReason.HELD_BACK: (Verdict.STALLED, Reason.HELD_BACK),
}


def _with_status(spec: ApplicationSpec, record: JobRecord, answer: Answer, now: float) -> Observation:
    status = answer.status
    assert status is not None
    health = assess(
        status,
        now=now,
        limits=HealthLimits(
            heartbeat_s=spec.health.no_answer_timeout_s,
            progress_s=spec.health.no_progress_timeout_s,
            start_s=spec.health.readiness_timeout_s,
        ),
    )
    verdict, reason = _REASONS[health.reason]
    lags = [
        (f"{topic}-{partition}", lag)
        for topic, partitions in status.lag.items()
        for partition, lag in partitions.items()
    ]
    worst = sorted(lags, key=lambda item: (-item[1], item[0]))[:WORST_PARTITIONS]
    return _observation(
        record,
        verdict,
        reason,
        health.text,
        now=now,
        state=status.state.value,
        remedy=status.remedy,
        lag=status.total_lag,
        records=sum(each.records for each in status.progress.values()),
        untried=tuple(number for number, each in status.progress.items() if not each.records and each.lag != 0),
        restore_remaining=status.restore_remaining,
        restore_rate=status.restore_rate,
        stream_threads=tuple(status.stream_threads),
        last_commit_at=status.last_commit_at,
        lag_at=status.lag_at,
        held_back=tuple(
            sorted(
                (f"{topic}-{partition}", max(0.0, now - end.held_back_since))
                for (topic, partition), end in status.held_back.items()
                if end.held_back_since is not None
            )
        ),
        worst_partitions=tuple((name, lag) for name, lag in worst if lag > 0 and math.isfinite(lag)),
    )
