"""Looking at savepoints, checking and deleting them."""

from __future__ import annotations

from typing import Any

from millrace.errors import OperationError
from millrace.install.application import Application
from millrace.install.files import append_journal
from millrace.install.locks import application_lock
from millrace.operations import unfinished_operation
from millrace.operations.action import Action
from millrace.operations.outcome import Outcome
from millrace.operations.savepoint_index import write_index
from millrace.operations.savepoints.location import launched_repository
from millrace.operations.savepoints.manifest import Manifest
from millrace.operations.savepoints.repository import SavepointRepository


def list_savepoints(application: Application) -> list[Manifest]:
    """Returns the savepoints of an application in whatever state, the oldest first."""
    manifests = _repository(application).manifests()
    write_index(application.directory, map(Manifest.known, manifests))
    return manifests


def show_savepoint(application: Application, name: str) -> Manifest:
    """A savepoint, as it is shown.

    Raises:
        OperationError: there is none of that name.
    """
    return _repository(application).read(name)


def verify_savepoint(application: Application, name: str, *, progress: Any = lambda _: None) -> Outcome:
    """Reads every file of a savepoint and compares it with the manifest.

    Raises:
        OperationError: files are missing or damaged; all of them are named.
    """
    repository = _repository(application)
    manifest = repository.read(name)
    problems = []
    for number, file in enumerate(manifest.files, 1):
        progress(f"file {number} of {len(manifest.files)}")
        try:
            repository.verify(file)
        except OperationError as error:
            problems.append(error.message)
    if problems:
        raise OperationError(
            f"Savepoint {name} of {application} is damaged: {' '.join(problems)}",
            remedy="restore another one, and delete this one",
        )
    text = f"{len(manifest.files)} files, {manifest.size / 1e6:.1f} MB, all as the manifest says"
    return Outcome(application=application.name, operation="savepoint verify", action=Action.NOTHING, text=text)


def delete_savepoint(
    application: Application, name: str, *, reason: str = "deleted by hand", dry_run: bool = False
) -> Outcome:
    """Deletes a savepoint, and the files that no other one needs. Repeating it after a crash is harmless.

    Raises:
        OperationError: there is none of that name, or an operation with savepoints has not ended.
    """
    repository = _repository(application)
    manifest = repository.read(name)
    directory = application.directory
    freed = 0
    if not dry_run:
        with application_lock(directory):
            if (unfinished := unfinished_operation(directory)) is not None:
                raise OperationError(
                    f"Cannot delete savepoint {name} of {application}: {unfinished}.",
                    remedy=f"resume it with `millrace operations resume {application}`",
                )
            append_journal(directory, "savepoint delete", "begun", name=name, reason=reason)
            freed = repository.remove(name)
            append_journal(directory, "savepoint delete", "deleted", name=name, freed_bytes=freed)
            write_index(directory, map(Manifest.known, repository.manifests()))
    return Outcome(
        application=application.name,
        operation="savepoint delete",
        action=Action.DELETE,
        text=f"{name}, {manifest.state}, {freed / 1e6:.1f} MB freed" if not dry_run else f"{name}, {manifest.state}",
        dry_run=dry_run,
    )


def _repository(application: Application) -> SavepointRepository:
    return launched_repository(application)
