"""One look at a job as plain data: a verdict, why, and what the driver said of its progress."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from millrace.driver.status import StreamThreadStatus
from millrace.install.files import strict_json
from millrace.install.launchers.instance import ControlPlane, DriverInstance
from millrace.install.record import DesiredState
from millrace.launch.last_heard import LastHeard
from millrace.processes import ProcessIdentity


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
