"""Observe: what can be seen of an application's job from its record, its process and its control plane.

Looking, asking and judging are apart, so that the trigger can ask without blocking and a test can judge without a job.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from millrace.driver.ending import ExitCode
from millrace.driver.health import HealthLimits, HealthReason, assess
from millrace.driver.status import StreamThreadStatus
from millrace.install.application import Application
from millrace.install.files import now_text, read_json, strict_json, write_json
from millrace.install.home import ApplicationDirectory
from millrace.install.launchers.instance import ControlPlane, DriverInstance, Presence, Probe
from millrace.install.record import DesiredState, JobRecord
from millrace.install.spec import ApplicationSpec, HealthSettings, RunState, SpecFile
from millrace.launch.changes import code_note
from millrace.launch.control_client import Answer, AnswerKind, ask
from millrace.launch.ending import last_line
from millrace.launch.last_heard import LastHeard, last_published, last_words, remembered
from millrace.launch.scrape_target import update_scrape_target
from millrace.processes import ProcessIdentity

WORST_PARTITIONS = 5


class Verdict(StrEnum):
    """What a supervisor should think of the job."""

    NOT_DEPLOYED = "not_deployed"
    STOPPED = "stopped"
    HEALTHY = "healthy"
    WAITING = "waiting"
    STALLED = "stalled"
    """It should work, and commits nothing although there may be something to do; a restart would not help yet."""
    UNHEALTHY = "unhealthy"
    DEAD = "dead"
    FENCED = "fenced"
    """Another installation's driver has taken over: starting this one again would fence that one in turn."""

    @property
    def needs_restart(self) -> bool:
        """Whether the job should run and does not work."""
        return self in {Verdict.UNHEALTHY, Verdict.DEAD}


class Reason(StrEnum):
    """Why: a code that does not change, for alerts and tests."""

    NO_RECORD = "no_record"
    NEVER_LAUNCHED = "never_launched"
    WORKING = "working"
    PAUSED = "paused"
    STARTING = "starting"
    STOPPING = "stopping"
    STOPPED_AS_ASKED = "stopped_as_asked"
    SUSPENDED = "suspended"
    STATUS_UNREADABLE = "status_unreadable"
    NO_ANSWER = "no_answer"
    HUNG = "hung"
    NO_PROGRESS = "no_progress"
    HEARTBEAT_OVERDUE = "heartbeat_overdue"
    START_TIMEOUT = "start_timeout"
    ENDED_IN_ERROR = "ended_in_error"
    ENDED_BY_ITSELF = "ended_by_itself"
    PROCESS_DIED = "process_died"
    CLUSTER_UNREACHABLE = "cluster_unreachable"
    PID_TAKEN = "pid_taken"
    PROCESS_STOPPED = "process_stopped"
    BROKER_UNREACHABLE = "broker_unreachable"
    NOT_COMMITTING = "not_committing"
    HELD_BACK = "held_back"
    FENCED = "fenced"


@dataclass(frozen=True, kw_only=True)
class Observation:
    """One look at a job.

    Args:
        application: its name.
        verdict: what to think of it.
        reason: why, as a code.
        text: why, in words.
        driver: the driver, where one was launched.
        control: how it is asked, where that is known.
        owner: ``run_id/try_number`` of the task that supervises it.
        desired: what the last operation asked for, where there was one.
        state: the application's own state, where it answered.
        lag: records behind, where known.
        records: input records processed since the driver started, where known.
        untried: sub-topologies that have processed nothing since then and are, or may be, behind.
        worst_partitions: the partitions that are furthest behind, at most five.
        restore_remaining: changelog records that restoring tasks have still to apply.
        restore_rate: how many of them are applied per second.
        restarts: restarts in a row.
        unanswered_since: since when the control plane has not answered, seconds since the epoch.
        remedy: what the operator should do now, where the driver has said so before it ended.
        last_commit_at: when an offset was committed last, seconds since the epoch; none where that is not known.
        lag_at: when the ends were read that the lag counts to, seconds since the epoch.
        heard: what the driver said last, where it does not answer.
        held_back: input partitions in which the application waits behind an open transaction, and for how many seconds.
        stream_threads: the stream threads that execute its tasks.
        note: what is to be known beside it, in one line: that its specification is wrong, or differs from what was
            launched.
        at: when it was looked, seconds since the epoch.
    """

    application: str
    verdict: Verdict
    reason: Reason
    text: str
    driver: DriverInstance | None = None
    control: ControlPlane | None = None
    owner: str = ""
    desired: DesiredState | None = None
    state: str = ""
    lag: int | None = None
    records: int | None = None
    untried: tuple[int, ...] = ()
    worst_partitions: tuple[tuple[str, int], ...] = ()
    restore_remaining: int = 0
    restore_rate: float = 0.0
    restarts: int = 0
    unanswered_since: float | None = None
    remedy: str = ""
    last_commit_at: float | None = None
    lag_at: float | None = None
    heard: LastHeard | None = None
    held_back: tuple[tuple[str, float], ...] = ()
    stream_threads: tuple[StreamThreadStatus, ...] = ()
    note: str = ""
    at: float = 0.0

    @property
    def process(self) -> ProcessIdentity | None:
        """The driver's process, where it runs on this host."""
        return self.driver.process if self.driver is not None else None

    @property
    def restore_eta_s(self) -> float | None:
        """Seconds until all tasks are restored; ``None`` where nothing remains or the rate is not known."""
        return self.restore_remaining / self.restore_rate if self.restore_remaining and self.restore_rate else None

    def summary(self) -> dict[str, Any]:
        """A small document of strict JSON, whatever the number of partitions; for XCom, a log line or a file."""
        return strict_json(  # type: ignore[no-any-return]
            {
                "application": self.application,
                "verdict": self.verdict.value,
                "reason": self.reason.value,
                "text": self.text[:500],
                "pid": self.process.pid if self.process else None,
                "driver": self.driver.name if self.driver else None,
                "owner": self.owner,
                "desired": self.desired.value if self.desired else None,
                "state": self.state,
                "lag": self.lag,
                "records": self.records,
                "worst_partitions": dict(self.worst_partitions),
                "restore_remaining": self.restore_remaining,
                "restore_rate": self.restore_rate,
                "restore_eta_s": self.restore_eta_s,
                "restarts": self.restarts,
                "unanswered_since": self.unanswered_since,
                "remedy": self.remedy[:500],
                "last_commit_at": self.last_commit_at,
                "lag_at": self.lag_at,
                "heard": None if self.heard is None else asdict(self.heard),
                "held_back": dict(self.held_back),
                "note": self.note[:500],
                "at": self.at,
            }
        )


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


def collect_evidence(application: Application) -> Evidence:
    """Read the application's files and look at its driver; takes milliseconds, or seconds where a cluster is asked.

    Raises:
        OperationError: the record cannot be understood.
    """
    directory = application.directory
    record = application.record
    driver = record.driver if record else None
    seen = application.specifications.seen()
    following, launched = seen.following, seen.running
    probe_result = driver.probe(directory) if driver is not None else None
    is_gone = probe_result is not None and probe_result.presence not in {Presence.ALIVE, Presence.UNKNOWN}
    is_gone = is_gone and record is not None and record.desired is DesiredState.RUNNING
    return Evidence(
        application=application.name,
        directory=directory,
        record=record,
        probe_result=probe_result,
        spec=following.file if following else None,
        spec_error=seen.problem,
        launched=launched.file if launched else None,
        last_words=last_line(directory) if is_gone else "",
        note=launched.note if launched else "",
        code_note=code_note(directory),
        unanswered_since=_unanswered_since(directory, driver),
        heard=remembered(directory, driver),
    )


def _unanswered_since(directory: ApplicationDirectory, driver: DriverInstance | None) -> float | None:
    last = (read_json(directory.supervision) or {}).get("observation", {})
    since = last.get("unanswered_since")
    same_driver = driver is not None and last.get("driver") == driver.name
    return float(since) if same_driver and isinstance(since, int | float) else None


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


def observe(application: Application) -> Observation:
    """Look, ask and judge; remembers since when the driver has not answered. Takes at most some seconds.

    Raises:
        OperationError: the record cannot be understood.
    """
    evidence = collect_evidence(application)
    answer = ask(evidence.probe_result) if evidence.probe_result is not None else None
    observation = judge(with_published(evidence, answer), answer, now=time.time())
    if evidence.record is not None:
        remember(evidence.directory, observation, spec_error=evidence.spec_error)
    return observation


def with_published(evidence: Evidence, answer: Answer | None) -> Evidence:
    """The evidence, with what the driver published last where it does not answer: the status topic outlives it.

    A broker that cannot be asked leaves what the last probe had heard. Takes at most some seconds.
    """
    judged_by = evidence.judged_by
    if answer is None or answer.kind is not AnswerKind.NONE or judged_by is None:
        return evidence
    published = last_published(judged_by.spec)
    if published is None or (evidence.heard is not None and evidence.heard.at >= published.at):
        return evidence
    return replace(evidence, heard=published)


def remember(
    directory: ApplicationDirectory,
    observation: Observation,
    *,
    spec_error: str = "",
    decision: str = "",
    watcher: str = "",
) -> None:
    """Write ``supervision.json``, and where Prometheus finds the driver.

    Args:
        directory: the application's directory.
        observation: what was seen.
        spec_error: what is wrong with the desired specification.
        decision: what was decided on it.
        watcher: ``run_id/try_number`` of the supervising task whose trigger looked; empty for anybody else.
    """
    written_at = now_text()
    # A probe by a person, or by an export, is none of a supervisor: it must not hide that there is none.
    supervised = written_at if decision or watcher else (read_json(directory.supervision) or {}).get("supervised_at")
    write_json(
        directory.supervision,
        {
            "written_at": written_at,
            "supervised_at": supervised,
            "watcher": watcher,
            "observation": observation.summary(),
            "decision": decision,
            "spec_error": spec_error,
        },
    )
    update_scrape_target(directory, observation.control, is_stopped=observation.verdict is Verdict.STOPPED)
