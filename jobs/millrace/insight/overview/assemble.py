"""From what was seen to what is shown. Pure."""

from __future__ import annotations

from collections import defaultdict

from millrace.driver.status import ApplicationStatus
from millrace.insight.overview.graph import graph_of
from millrace.insight.overview.history import Sample, flows, lag_points, lag_trend, rate, rates
from millrace.insight.overview.measurements import Measurements, StoreSize
from millrace.insight.overview.model import (
    ApplicationDetails,
    ApplicationOverview,
    DeadLettersView,
    InputView,
    JournalEntry,
    OperationView,
    Recovery,
    Savepoints,
    StoreView,
    TaskView,
    TransactionsView,
)
from millrace.insight.overview.probe import ApplicationProbe
from millrace.launch.observation import Reason, Verdict

_REMEDIES = {
    Reason.NO_RECORD: "deploy it",
    Reason.NEVER_LAUNCHED: "deploy it again",
    Reason.STATUS_UNREADABLE: "compare the versions of the driver and of this page, and read the driver's log",
    Reason.PROCESS_STOPPED: "continue it (kill -CONT), or end it: its supervision starts it again",
    Reason.BROKER_UNREACHABLE: "start the broker, or see why it does not answer; the application goes on by itself",
    Reason.NOT_COMMITTING: "see the batch in the driver's log, and the workers of its tasks; supervision restarts it",
    Reason.HELD_BACK: "find the transaction with `kafka-transactions.sh list` and end it, or wait for its timeout",
    Reason.FENCED: "nothing, if the other installation is meant; otherwise stop it there, and deploy it here again",
    Reason.NO_ANSWER: "wait; its supervision restarts it if it stays silent",
    Reason.HUNG: "its supervision restarts it; without one, deploy it again",
    Reason.NO_PROGRESS: "read the driver's log; its supervision restarts it",
    Reason.HEARTBEAT_OVERDUE: "look whether the broker can be reached; its supervision restarts it",
    Reason.START_TIMEOUT: "read the driver's log; its supervision restarts it",
    Reason.ENDED_IN_ERROR: "read the driver's log, fix the cause and deploy it again",
    Reason.ENDED_BY_ITSELF: "its supervision restarts it; without one, deploy it again",
    Reason.PROCESS_DIED: "its supervision restarts it; without one, deploy it again",
    Reason.CLUSTER_UNREACHABLE: "see whether its cluster answers; nothing is done before it does",
    Reason.PID_TAKEN: "its supervision restarts it; without one, deploy it again",
}
_SHOWN_INPUTS = 100
_SHOWN_TASKS = 500


def overview(probe: ApplicationProbe, samples: tuple[Sample, ...], savepoints: Savepoints) -> ApplicationOverview:
    """One application at a glance.

    Args:
        probe: the last probe of it.
        samples: all looks that answered, this one included, oldest first.
        savepoints: what is known of them.
    """
    seen, status = probe.observation, probe.status
    needs_help = seen.verdict not in {Verdict.HEALTHY, Verdict.STOPPED}
    return ApplicationOverview(
        name=probe.application,
        verdict=seen.verdict.value,
        reason=seen.reason.value,
        text=_text(probe) if needs_help else seen.text,
        remedy=_remedy(probe) if needs_help else "",
        problem=probe.problem,
        at=probe.at,
        state=status.state.value if status else seen.state,
        paused=status is not None and status.paused,
        desired=seen.desired.value if seen.desired else "",
        lag=status.total_lag if status else seen.heard.lag if seen.heard else None,
        lag_trend=lag_trend(samples),
        lag_points=lag_points(samples),
        rate=_rate(status, samples) if status else None,
        records=sum(each.records for each in status.progress.values()) if status else None,
        last_commit_at=status.last_commit_at if status else seen.last_commit_at,
        restarts=seen.restarts,
        query_restarts=probe.measured.query_restarts if probe.measured else 0,
        driver=f"{status.driver.host}/{status.driver.pid}" if status else "",
        driver_epoch=status.driver_epoch if status else None,
        started_at=(status.started_at or None) if status else None,
        supervised_by=seen.owner,
        guarantee=status.processing_guarantee if status else "",
        savepoints=savepoints,
        recovery=_recovery(status),
        transactions=_transactions(probe.measured, samples),
        dead_letters=DeadLettersView(
            topic=probe.dead_letter_topic, written=probe.measured.dead_letters if probe.measured else None
        ),
        tasks=sum(len(each.task_states) for each in status.progress.values()) if status else 0,
    )


def details(
    probe: ApplicationProbe,
    samples: tuple[Sample, ...],
    savepoints: Savepoints,
    *,
    last_status: ApplicationStatus | None,
    journal: tuple[JournalEntry, ...],
    operations: tuple[OperationView, ...],
    log: str,
) -> ApplicationDetails:
    """Everything that is known of one application.

    Args:
        probe: the last probe of it.
        samples: as for :func:`overview`.
        savepoints: what is known of them.
        last_status: the last status that a driver gave: its topology is shown also while none answers.
        journal: what operations did.
        operations: multi-step operations.
        log: the driver's log file.
    """
    status, measured = probe.status, probe.measured or Measurements()
    known = status or last_status
    return ApplicationDetails(
        overview=overview(probe, samples, savepoints),
        description=probe.description,
        task_list=_tasks(status, measured) if status else (),
        stores=_stores(measured, known),
        inputs=_inputs(status, probe.at) if status else (),
        graph=graph_of(known, flows(samples), is_current=status is not None) if known else None,
        journal=journal,
        operations=operations,
        dropped=dict(measured.dropped),
        log=log,
    )


def _text(probe: ApplicationProbe) -> str:
    """Why it is as it is: what the driver says of itself, unless what is seen from outside is more."""
    reason = probe.status.reason if probe.status else ""
    return probe.observation.text if probe.observation.verdict is Verdict.STALLED or not reason else reason


def _remedy(probe: ApplicationProbe) -> str:
    if probe.observation.remedy:
        return probe.observation.remedy
    if probe.observation.reason is Reason.NO_RECORD and probe.problem:
        return ""  # the problem has a remedy of its own
    return (
        (probe.status.remedy if probe.status else "")
        or probe.observation.remedy
        or _REMEDIES.get(probe.observation.reason, "")
    )


def _rate(status: ApplicationStatus, samples: tuple[Sample, ...]) -> float | None:
    recent = rate(samples, lambda sample: sample.records)
    if recent is not None:
        return recent
    running_s = status.updated_at - status.started_at
    records = sum(each.records for each in status.progress.values())
    return records / running_s if status.started_at and running_s > 0 else None


def _recovery(status: ApplicationStatus | None) -> Recovery | None:
    if status is None or not status.restore_remaining:
        return None
    return Recovery(remaining=status.restore_remaining, rate=status.restore_rate, eta_s=status.restore_eta_s)


def _transactions(measured: Measurements | None, samples: tuple[Sample, ...]) -> tuple[TransactionsView, ...]:
    if measured is None:
        return ()
    speeds = rates(samples, lambda sample: sample.transactions)
    return tuple(
        TransactionsView(outcome=outcome, total=total, rate=speeds.get(outcome))
        for outcome, total in sorted(measured.transactions.items(), key=lambda item: (item[0] != "committed", item[0]))
    )


def _tasks(status: ApplicationStatus, measured: Measurements) -> tuple[TaskView, ...]:
    sizes: defaultdict[str, list[StoreSize]] = defaultdict(list)
    for (task, _), size in measured.store_sizes.items():
        sizes[task].append(size)
    found = [
        TaskView(
            id=task,
            sub_topology=number,
            state=state,
            worker=status.task_hosts.get(task, ""),
            remaining=each.restore_remaining.get(task, 0),
            rate=each.restore_rates.get(task, 0.0),
            eta_s=each.restore_eta_s(task),
            entries=sum(size.entries for size in sizes[task]) if task in sizes else None,
            bytes=sum(size.bytes for size in sizes[task]) if task in sizes else None,
            failed_attempts=measured.failed_attempts.get(task, 0),
        )
        for number, each in sorted(status.progress.items())
        for task, state in each.task_states.items()
    ]
    return tuple(sorted(found, key=lambda task: [*map(_part, task.id.split("_"))])[:_SHOWN_TASKS])


def _part(text: str) -> tuple[int, str]:
    return (int(text), "") if text.isdigit() else (-1, text)


def _stores(measured: Measurements, status: ApplicationStatus | None) -> tuple[StoreView, ...]:
    described = status.topology_summary.get("stores", {}) if status else {}
    sizes: defaultdict[str, list[StoreSize]] = defaultdict(list)
    for (_, store), size in measured.store_sizes.items():
        sizes[store].append(size)
    found = [
        StoreView(
            name=name,
            kind=str(described.get(name, {}).get("kind", "")),
            sub_topology=each[0].sub_topology,
            tasks=len(each),
            entries=sum(size.entries for size in each),
            bytes=sum(size.bytes for size in each),
        )
        for name, each in sizes.items()
    ]
    return tuple(sorted(found, key=lambda store: (-store.bytes, store.name)))


def _inputs(status: ApplicationStatus, now: float) -> tuple[InputView, ...]:
    found = [
        _input(status, topic, partition, offset, now)
        for topic, offsets in status.offsets.items()
        for partition, offset in offsets.items()
    ]
    return tuple(
        sorted(
            found,
            key=lambda each: (each.held_back_s is None, -(each.lag or 0), each.topic, each.partition),
        )[:_SHOWN_INPUTS]
    )


def _input(status: ApplicationStatus, topic: str, partition: int, offset: int, now: float) -> InputView:
    end = status.input_ends.get(topic, {}).get(partition)
    since = end.held_back_since if end is not None else None
    return InputView(
        topic=topic,
        partition=partition,
        offset=offset,
        lag=status.lag.get(topic, {}).get(partition),
        last_stable=end.last_stable if end is not None else None,
        high_watermark=end.high_watermark if end is not None else None,
        held_back_s=max(0.0, now - since) if since is not None else None,
    )
