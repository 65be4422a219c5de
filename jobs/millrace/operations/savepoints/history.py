"""Savepoints that are taken by themselves, and how long savepoints are kept."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any

from millrace.errors import OperationError
from millrace.install.application import Application
from millrace.install.files import append_journal
from millrace.install.locks import application_lock
from millrace.install.spec import SavepointSettings
from millrace.operations import unfinished_operation
from millrace.operations.action import Action
from millrace.operations.outcome import Outcome
from millrace.operations.savepoint_index import write_index
from millrace.operations.savepoints.create import create_savepoint
from millrace.operations.savepoints.location import repository_of
from millrace.operations.savepoints.manifest import Manifest, SavepointState


def outdated(
    manifests: Collection[Manifest], settings: SavepointSettings, *, now: float, under_way: str = ""
) -> list[Manifest]:
    """Returns the savepoints that are not kept, the oldest first. Pure.

    The newest complete one is always kept. One that failed, or was given up, goes once a later one is complete.

    Args:
        manifests: all savepoints of an application.
        settings: how many are kept, and for how long.
        now: seconds since the epoch.
        under_way: name of the one that an unfinished operation takes.
    """
    by_age = sorted(manifests, key=lambda manifest: manifest.created_at)
    complete = [each for each in by_age if each.state is SavepointState.COMPLETED]
    if not complete:
        return []
    newest = complete[-1]
    kept = {each.name for each in complete[-settings.keep_count :]}
    if settings.keep_s is not None:
        kept = {each.name for each in complete if each.name in kept and now - each.created_at <= settings.keep_s}
    kept |= {newest.name, under_way}
    kept |= {each.name for each in by_age if each.created_at > newest.created_at}
    return [each for each in by_age if each.name not in kept]


def is_due(manifests: Sequence[Manifest], settings: SavepointSettings, *, now: float) -> bool:
    """Returns whether another periodic savepoint is due. Pure."""
    if settings.interval_s is None:
        return False
    complete = [each.created_at for each in manifests if each.state is SavepointState.COMPLETED]
    return not complete or now - max(complete) >= settings.interval_s


def take_due_savepoint(application: Application, *, progress: Any = lambda _: None) -> Outcome:
    """Takes a savepoint where the newest is older than ``savepoints.interval_s``, then deletes those that are not kept.

    For whatever comes by now and then: cron, Airflow, a supervising loop.

    Raises:
        OperationError: the specification has no interval, or the savepoint failed.
    """
    spec = application.launched.spec
    if spec.savepoints.interval_s is None:
        raise OperationError(
            f"The specification of {application} says nothing about when savepoints are due.",
            remedy="set `savepoints.interval_s`",
        )
    if not is_due(repository_of(application.home, spec).manifests(), spec.savepoints, now=time.time()):
        text = f"the newest is younger than {spec.savepoints.interval_s:g} s"
        return Outcome(application=application.name, operation="savepoint", action=Action.NOTHING, text=text)
    taken = create_savepoint(application, reason="taken by itself", progress=progress)
    prune_savepoints(application)
    return taken


def prune_savepoints(application: Application, *, dry_run: bool = False) -> Outcome:
    """Deletes the savepoints that are not kept. Repeating it after a crash is harmless.

    Args:
        application: which.
        dry_run: only say which.
    """
    spec = application.launched.spec
    repository, directory = repository_of(application.home, spec), application.directory
    directory.path.mkdir(parents=True, exist_ok=True)
    freed = 0
    with application_lock(directory):
        unfinished = unfinished_operation(directory)
        under_way = "" if unfinished is None else str(unfinished.plan.decisions.get("name", ""))
        going = outdated(repository.manifests(), spec.savepoints, now=time.time(), under_way=under_way)
        if not dry_run and going and unfinished is None:
            for each in going:
                append_journal(directory, "savepoint prune", "deleted", name=each.name, state=each.state)
                freed += repository.remove(each.name)
            write_index(directory, map(Manifest.known, repository.manifests()))
    text = f"{len(going)} savepoints"
    if unfinished is not None:
        text += f"; nothing is deleted while {unfinished}"
    elif not dry_run:
        text += f", {freed / 1e6:.1f} MB freed"
    return Outcome(
        application=application.name,
        operation="savepoint prune",
        action=Action.DELETE if going and unfinished is None else Action.NOTHING,
        text=text,
        dry_run=dry_run,
        steps=tuple(f"delete {each.name}, {each.state}" for each in going),
    )
