"""Taking a savepoint, of an application that runs or is stopped."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from millrace.driver.savepoint import SAVEPOINT_OPERATION, ApplicationPoint, Checkpoints
from millrace.errors import MillraceError, OperationError
from millrace.install.application import Application
from millrace.install.launchers import refuse_state_elsewhere
from millrace.install.record import read_record
from millrace.launch.control_client import request_operation
from millrace.operations import OperationPlan, Step, StepContext, abandon, operation, perform, unfinished_operation
from millrace.operations.outcome import Outcome
from millrace.operations.savepoint_index import write_index
from millrace.operations.savepoints.location import repository_of, target_of
from millrace.operations.savepoints.manifest import Manifest, SavepointState
from millrace.operations.savepoints.repository import SavepointRepository, saved_file
from millrace.operations.savepoints.stopped import checkpoint_stopped

KIND = "savepoint"
_KEPT_SETTINGS = ("processing.guarantee", "commit.interval.ms", "state.dir", "bootstrap.servers", "auto.offset.reset")


def create_savepoint(
    application: Application,
    *,
    name: str = "",
    reason: str = "taken by hand",
    dry_run: bool = False,
    timeout_s: float = 600.0,
    progress: Any = lambda _: None,
) -> Outcome:
    """Takes a savepoint.

    A running application holds its batches while its tasks link their files; copying comes after that. A stopped one is
    brought to its committed offsets first, as its next start would. What was killed goes on with ``resume``; what
    failed is given up, its manifest says why, and nothing of it is in the way.

    Args:
        application: which.
        name: of the savepoint; by default the time, UTC.
        reason: for the manifest and the journal.
        dry_run: only say what would be done.
        timeout_s: longest time for the driver to hold its tasks and copy what waits between them, seconds.
        progress: takes lines that say how far it is.

    Raises:
        OperationError: there is one of that name, another operation has not ended, or the driver refuses.
        StateError: the state of a stopped application does not fit its offsets.
    """
    directory = application.directory
    record = application.record
    running = record is not None and record.is_driver_alive(directory)
    plan = plan_savepoint(application, name=name, running=running, reason=reason, timeout_s=timeout_s)
    try:
        return perform(application.home, plan, dry_run=dry_run, progress=progress)
    except MillraceError as error:
        _discard_unfinished(application, str(plan.decisions["name"]), error)
        raise


def plan_savepoint(
    application: Application, *, name: str, running: bool, reason: str = "", timeout_s: float = 600.0
) -> OperationPlan:
    """Returns the savepoint that :func:`create_savepoint` takes, decided and checked.

    Args:
        application: see there.
        name: see there.
        running: whether the application runs.
        reason: see there.
        timeout_s: see there.

    Raises:
        OperationError: there is one of that name, or the stores are not on this host.
    """
    spec = application.launched.spec
    refuse_state_elsewhere(spec, what="take a savepoint of")
    repository = repository_of(application.home, spec)
    name = name or f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    if name in repository.names():
        raise OperationError(f"{application} has a savepoint {name} already.", remedy="choose another name")
    return OperationPlan(
        operation=KIND,
        application=application.name,
        reason=reason,
        decisions={
            "name": name,
            "repository": repository.url,
            "running": running,
            "timeout_s": timeout_s,
            "created_at": time.time(),
        },
        # A stopped application must not be started while its databases are read.
        holds_application=not running,
    )


SAVEPOINT_STEPS = ("begin", "checkpoint", "copy", "complete")
"""Names of the steps of taking a savepoint, for operations that contain one."""


@operation(KIND)
def savepoint_steps(plan: OperationPlan) -> Sequence[Step]:
    """Returns the steps of taking a savepoint."""
    name, where = plan.decisions["name"], plan.decisions["repository"]
    how = (
        "Hold all tasks of the running application between two batches, link the files of their stores"
        if plan.decisions["running"]
        else "Bring the stores of the stopped application to its committed offsets, link their files"
    )
    return [
        Step(name="begin", text=f"Write the manifest of savepoint {name} to {where}: in progress.", run=_begin),
        Step(name="checkpoint", text=f"{how}, and copy what waits in repartition topics.", run=_checkpoint),
        Step(name="copy", text=f"Copy the files that no earlier savepoint has to {where}.", run=_copy),
        Step(name="complete", text="Write the manifest: complete; remove the links.", run=_complete),
    ]


def _begin(context: StepContext) -> Mapping[str, Any]:
    spec = context.application.launched.spec
    target = target_of(spec)
    repository = _repository(context)
    complete = [each for each in repository.manifests() if each.state is SavepointState.COMPLETED]
    known = spec.streams_config().model_dump(by_alias=True, mode="json")
    repository.write(
        Manifest(
            name=context.plan.decisions["name"],
            application=context.plan.application,
            state=SavepointState.IN_PROGRESS,
            created_at=context.plan.decisions["created_at"],
            reason=context.plan.reason,
            millrace_version=version("millrace"),
            operation=context.id,
            parent=complete[-1].name if complete else None,
            from_running=context.plan.decisions["running"],
            fingerprint=target.topology.fingerprint,
            summary=target.topology.summary(),
            description=target.topology.describe(),
            config={key: str(known[key]) for key in _KEPT_SETTINGS if known.get(key) is not None},
        )
    )
    return {"parent": complete[-1].name if complete else None}


def _checkpoint(context: StepContext) -> Mapping[str, Any]:
    application, name = context.plan.application, context.plan.decisions["name"]
    if not context.plan.decisions["running"]:
        target = target_of(context.application.launched.spec)
        return checkpoint_stopped(target.config, target.topology, name).model_dump(mode="json")
    record = read_record(context.directory)
    if record is None or record.driver is None or not record.is_driver_alive(context.directory):
        raise OperationError(
            f"{application} has stopped since the savepoint was begun.",
            remedy=f"`millrace operations abandon {application}`, then take another one",
        )
    timeout_s = float(context.plan.decisions["timeout_s"])
    answer = request_operation(
        context.directory, record.driver, SAVEPOINT_OPERATION, {"name": name}, timeout_s=timeout_s
    )
    point = Checkpoints.model_validate(answer)
    if not all((Path(point.directory) / task).is_dir() for task in point.tasks):
        raise OperationError(
            f"The checkpoints in {point.directory} are not all on this host.",
            remedy="take savepoints on a host that sees state.dir of every worker",
        )
    return answer


def _copy(context: StepContext) -> Mapping[str, Any]:
    point = Checkpoints.model_validate(context.results["checkpoint"])
    directory, repository = Path(point.directory), _repository(context)
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    files, copied = [], 0
    for number, path in enumerate(paths, 1):
        file = saved_file(path, directory)
        files.append(file)
        if not repository.has(file):
            repository.add(path, file)
            copied += file.size
        context.progress(f"file {number} of {len(paths)}, {copied / 1e6:.1f} MB copied")
    begun = repository.read(context.plan.decisions["name"])
    # From here on no other savepoint's deletion takes them for unused.
    repository.write(begun.model_copy(update={"files": files, "copied_bytes": copied}))
    return {"files": len(files), "copied_bytes": copied}


def _complete(context: StepContext) -> Mapping[str, Any]:
    repository = _repository(context)
    begun = repository.read(context.plan.decisions["name"])
    manifest = Manifest.model_validate(
        {
            **begun.model_dump(),
            "state": SavepointState.COMPLETED,
            "completed_at": begun.completed_at or time.time(),
            "point": context.results["checkpoint"],
        }
    )
    repository.write(manifest)
    write_index(context.directory, map(Manifest.known, repository.manifests()))
    shutil.rmtree(context.results["checkpoint"]["directory"], ignore_errors=True)
    return {"name": manifest.name, "bytes": manifest.size, "copied_bytes": manifest.copied_bytes}


def _repository(context: StepContext) -> SavepointRepository:
    return SavepointRepository(context.plan.decisions["repository"], context.plan.application)


def _discard_unfinished(application: Application, name: str, error: MillraceError) -> None:
    """Ends a savepoint that failed, so that it blocks no other operation."""
    unfinished = unfinished_operation(application.directory)
    if unfinished is None or unfinished.plan.operation != KIND or unfinished.plan.decisions["name"] != name:
        return
    mark_failed(
        application, SavepointRepository(unfinished.plan.decisions["repository"], application.name), name, error
    )
    abandon(application, reason=error.message)


def mark_failed(application: Application, repository: SavepointRepository, name: str, error: MillraceError) -> None:
    """Says in the manifest of a savepoint that it failed, and removes its links."""
    target = target_of(application.launched.spec)
    shutil.rmtree(ApplicationPoint(target.config, target.topology).directory(name), ignore_errors=True)
    if name in repository.names():
        manifest = repository.read(name)
        repository.write(
            manifest.model_copy(
                update={"state": SavepointState.FAILED, "reason": error.message, "completed_at": time.time()}
            )
        )
        write_index(application.directory, map(Manifest.known, repository.manifests()))
