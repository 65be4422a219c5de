"""The status of each stream thread, for the application's status, the page and the metrics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from millrace.driver.coordinator.members import Member
from millrace.driver.status import StreamThreadStatus
from millrace.metrics import StreamThreadTotals
from millrace.spark.stream_threads.messages import ThreadTiming


@dataclass(frozen=True, kw_only=True)
class ThreadStatus:
    """The status of a stream thread.

    Args:
        thread: ``host/pid``.
        slot: number of its Spark partition.
        host: where it runs.
        pid: its process.
        tasks: names of its tasks.
        leaving: those of them that it is to hand over.
        standbys: tasks of which it keeps a standby copy.
        standby_lag: changelog offsets that these lack; ``None`` where that is not known of one, or there is none.
        standby_problems: why copies do not follow.
        poll: part of the last half minute that it spent reading.
        process: the same in processing.
        commit: the same in commits during which nothing else could be done.
        idle: the same with nothing to do.
        commits_per_s: commits of tasks, a second, over that time.
        commit_latency_s: from the begin of a commit to its end (mean over that time), seconds; ``None`` without any.
        longest_commit_s: longest of them in the last report, seconds.
        timing: since it began.
    """

    thread: str
    slot: int
    host: str
    pid: int
    tasks: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()
    standbys: tuple[str, ...] = ()
    standby_lag: int | None = None
    standby_problems: tuple[str, ...] = ()
    poll: float = 0.0
    process: float = 0.0
    commit: float = 0.0
    idle: float = 0.0
    commits_per_s: float = 0.0
    commit_latency_s: float | None = None
    longest_commit_s: float = 0.0
    timing: ThreadTiming = field(default_factory=ThreadTiming)


def thread_statuses(members: Iterable[Member]) -> tuple[ThreadStatus, ...]:
    """Returns the status of each thread, in the order of their slots."""
    return tuple(_status(each) for each in sorted(members, key=lambda each: (each.hello.slot, each.connection)))


def shown(status: ThreadStatus) -> StreamThreadStatus:
    """Returns a thread's status in the form of the application's status."""
    return StreamThreadStatus(
        slot=status.slot,
        worker=status.thread,
        tasks=list(status.tasks),
        leaving=list(status.leaving),
        standbys=list(status.standbys),
        standby_lag=status.standby_lag,
        standby_problems=list(status.standby_problems),
        poll=round(status.poll, 4),
        process=round(status.process, 4),
        commit=round(status.commit, 4),
        idle=round(status.idle, 4),
        commits_per_s=round(status.commits_per_s, 3),
        commit_latency_s=status.commit_latency_s,
        longest_commit_s=status.longest_commit_s,
    )


def totals_of(status: ThreadStatus) -> StreamThreadTotals:
    """Returns a thread's status in the form of the metrics."""
    timing = status.timing
    return StreamThreadTotals(
        tasks=len(status.tasks),
        standbys=len(status.standbys),
        standby_lag=status.standby_lag,
        seconds={"poll": timing.poll_s, "process": timing.process_s, "commit": timing.commit_s, "idle": timing.idle_s},
        commits=timing.commits,
        commit_seconds=timing.commit_latency_s,
    )


def _status(member: Member) -> ThreadStatus:
    hello = member.hello
    before_at, before = member.timings[0] if member.timings else (0.0, ThreadTiming())
    now, timing = member.timings[-1] if member.timings else (0.0, ThreadTiming())
    spent = {
        name: max(0.0, getattr(timing, f"{name}_s") - getattr(before, f"{name}_s"))
        for name in ("poll", "process", "commit", "idle")
    }
    total = sum(spent.values())
    elapsed, commits = now - before_at, timing.commits - before.commits
    lags = [copy.lag if (copy := member.copies.get(task)) is not None else None for task in member.standbys]
    return ThreadStatus(
        thread=f"{hello.host}/{hello.pid}",
        slot=hello.slot,
        host=hello.host,
        pid=hello.pid,
        tasks=tuple(sorted(member.grants)),
        leaving=tuple(sorted(task for task, grant in member.grants.items() if grant.leaving_since is not None)),
        standbys=tuple(sorted(member.standbys)),
        standby_lag=sum(lag for lag in lags if lag is not None) if lags and None not in lags else None,
        standby_problems=tuple(
            f"{task}: {copy.problem}" for task, copy in sorted(member.copies.items()) if copy.problem
        ),
        commits_per_s=commits / elapsed if elapsed > 0 else 0.0,
        commit_latency_s=(timing.commit_latency_s - before.commit_latency_s) / commits if commits > 0 else None,
        longest_commit_s=timing.longest_commit_s,
        timing=timing,
        **{name: seconds / total if total > 0 else 0.0 for name, seconds in spent.items()},
    )
