"""What the files of an installation tell: supervision, operations, drills, savepoints, space, the standby."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from millrace.errors import OperationError
from millrace.insight.export.exported import ExportedApplication
from millrace.insight.export.series import Sample
from millrace.install.files import read_json
from millrace.install.record import DesiredState
from millrace.install.spec import RunState
from millrace.launch.control_client import ask
from millrace.launch.judge import judge
from millrace.launch.observation import Reason, Verdict
from millrace.launch.observe import collect_evidence
from millrace.metrics import exported as m
from millrace.metrics.exported import DrillResult, OperationResult
from millrace.operations.journal import OperationRecord, OperationState, operations_of
from millrace.operations.savepoints.location import repository_of
from millrace.operations.savepoints.manifest import SavepointState
from millrace.operations.standby.status import read_standby_status


def supervision(exported: ExportedApplication) -> Iterable[Sample]:
    """Whether it should run and does, and who looks after it. Leaves no trace of its own probe."""
    evidence = collect_evidence(exported.handle)
    record = evidence.record
    if record is None:
        return
    answer = ask(evidence.probe_result) if evidence.probe_result is not None else None
    observation = judge(evidence, answer, now=time.time())
    suspended = evidence.spec is not None and evidence.spec.spec.state is RunState.SUSPENDED
    yield Sample(m.WANTED, float(record.desired is DesiredState.RUNNING and not suspended))
    # One that waits for another client's transaction does what it can; that has an alert of its own.
    healthy = observation.verdict is Verdict.HEALTHY or observation.reason is Reason.HELD_BACK
    yield Sample(m.HEALTHY, float(healthy))
    yield Sample(m.VERDICT, 1.0, (observation.verdict.value, observation.reason.value))
    yield Sample(m.RESTARTS, record.restarts)
    if record.launched_at:
        yield Sample(m.LAUNCHED, record.launched_at)
    supervised = (read_json(exported.directory.supervision) or {}).get("supervised_at")
    if isinstance(supervised, str):
        yield Sample(m.SUPERVISED, seconds_of(supervised))
    objective = exported.spec.health.recovery_objective_s
    if objective is not None:
        yield Sample(m.RECOVERY_OBJECTIVE, objective)


def operations(exported: ExportedApplication) -> Iterable[Sample]:
    """Results and durations of multi-step operations."""
    counts: Counter[tuple[str, str]] = Counter()
    latest: dict[tuple[str, str], float] = {}
    durations: dict[str, float] = {}
    for record in operations_of(exported.directory):
        kind, result = record.plan.operation, _result(record)
        begun = seconds_of(record.begun_at)
        ended = seconds_of(record.ended_at) if record.ended_at else begun
        counts[kind, result] += 1
        latest[kind, result] = max(ended, latest.get((kind, result), 0.0))
        if result is OperationResult.COMPLETED:
            durations[kind] = max(0.0, ended - begun)
    for kind in {kind for kind, _ in counts}:
        for result in OperationResult:
            yield Sample(m.OPERATIONS, counts[kind, result], (kind, result))
    for labels, at in latest.items():
        yield Sample(m.OPERATION_LAST, at, labels)
    for kind, duration in durations.items():
        yield Sample(m.OPERATION_DURATION, duration, (kind,))


def _result(record: OperationRecord) -> OperationResult:
    if record.state is OperationState.COMPLETED:
        return OperationResult.COMPLETED
    if record.state is OperationState.ABANDONED:
        return OperationResult.ABANDONED
    return OperationResult.FAILED if record.error else OperationResult.UNFINISHED


def drills(exported: ExportedApplication) -> Iterable[Sample]:
    """Recovery times that drills measured."""
    counts: Counter[tuple[str, str]] = Counter()
    latest: dict[tuple[str, str], float] = {}
    durations: dict[str, float] = {}
    for drill in _lines(exported.directory.drills):
        kind = str(drill["kind"])
        result = DrillResult.PASSED if drill["ok"] else DrillResult.FAILED
        counts[kind, result] += 1
        latest[kind, result] = seconds_of(drill["finished_at"])
        durations.pop(kind, None)
        if result is DrillResult.PASSED:
            durations[kind] = float(drill["seconds"])
    for kind in {kind for kind, _ in counts}:
        for each in DrillResult:
            yield Sample(m.DRILLS, counts[kind, each], (kind, each))
    for labels, at in latest.items():
        yield Sample(m.DRILL_LAST, at, labels)
    for kind, duration in durations.items():
        yield Sample(m.DRILL_DURATION, duration, (kind,))


def savepoints(exported: ExportedApplication) -> Iterable[Sample]:
    """How many there are, and the age and size of the newest complete one."""
    if exported.spec.savepoints.interval_s is not None:
        yield Sample(m.SAVEPOINT_INTERVAL, exported.spec.savepoints.interval_s)
    manifests = repository_of(exported.home, exported.spec).manifests()
    counts = Counter(manifest.state for manifest in manifests)
    for state in SavepointState:
        yield Sample(m.SAVEPOINTS, counts[state], (state.value.lower(),))
    complete = [manifest for manifest in manifests if manifest.state is SavepointState.COMPLETED]
    if complete:
        yield Sample(m.SAVEPOINT_LAST, complete[-1].created_at)
        yield Sample(m.SAVEPOINT_SIZE, complete[-1].size)


def state(exported: ExportedApplication) -> Iterable[Sample]:
    """Space on the file system of the state directory."""
    directory = Path(exported.config.state_dir).absolute()
    while not directory.exists():
        directory = directory.parent
    usage = shutil.disk_usage(directory)
    yield Sample(m.DISK_FREE, usage.free)
    yield Sample(m.DISK_SIZE, usage.total)


def standby(exported: ExportedApplication) -> Iterable[Sample]:
    """How far the copies of this host's standby are."""
    status = read_standby_status(Path(exported.config.state_dir), exported.config.application_id)
    if status is None:
        return
    alive = status.process.is_alive()
    yield Sample(m.STANDBY_UP, float(alive))
    yield Sample(m.STANDBY_ACCEPTABLE_LAG, status.acceptable_recovery_lag)
    for name, task in status.tasks.items():
        if alive and task.lag is not None and task.state == "copying":
            yield Sample(m.STANDBY_LAG, task.lag, (name.partition("_")[0], name))


def seconds_of(moment: str | float) -> float:
    """Seconds since the epoch of a moment in ISO 8601, or as such a number already."""
    return datetime.fromisoformat(moment).timestamp() if isinstance(moment, str) else float(moment)


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return
    lines = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            yield orjson.loads(line)
        except orjson.JSONDecodeError as error:
            if number == len(lines):
                return  # its writer was killed while it wrote
            raise OperationError(
                f"Line {number} of {path} is no JSON.", remedy="bring the file back from a copy, or remove the line"
            ) from error
