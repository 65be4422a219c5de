"""Reset an application: it begins again, from where it is told, with nothing left of what it has computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from millrace.errors import OperationError
from millrace.install.application import Application
from millrace.install.connection import Connection
from millrace.install.named_cluster import NamedCluster
from millrace.operations import OperationPlan, perform
from millrace.operations.outcome import Outcome
from millrace.operations.reset import activity
from millrace.operations.reset.known import KnownApplication, known_application
from millrace.operations.reset.options import ResetOptions
from millrace.operations.reset.plan import decide
from millrace.operations.savepoints.location import launched_repository
from millrace.operations.stop import stop
from millrace.state.directory import StateDirectory

KIND = "reset"


def reset(
    application: Application,
    *,
    options: ResetOptions | None = None,
    cluster: NamedCluster | None = None,
    reason: str = "a reset was asked for",
    dry_run: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Resets an application.

    Its offsets are set, its internal topics deleted (those of its topology and of the one that ran last, by their
    names), its stores removed; every producer that may still write for it is fenced. Everything is decided and checked
    before anything changes; what is killed midway is resumed by :func:`millrace.operations.resume`.

    Args:
        application: its name; its id, where it has no specification here.
        options: what is to be done; by default all input topics go to their beginning.
        cluster: of an application without a specification here: what belongs to it is then what the status topic has
            of it.
        reason: for the journal.
        dry_run: only say what would be done.
        progress: takes lines that say how far it is.

    Returns:
        What was done; ``results["check"]`` has what was checked afterwards.

    Raises:
        OperationError: the application runs, nothing is known of it, or something that was asked for cannot be done.
        StateDirectoryLockedError: a process uses its local state.
        MillraceError: a step failed; the reset can be resumed.
    """
    options = options or ResetOptions()
    known = known_application(application, cluster)
    stopped: tuple[str, ...] = ()
    if options.stop and (who := activity.runs_here(application.directory)):
        stopped = (f"Stop it: {who}.",)
        if not dry_run:
            progress(f"stopping {application}: {who}")
            stop(application, reason=reason)
            # It has committed and published since.
            known = known_application(application, cluster)
    _refuse_running(application, known, options, will_stop=bool(stopped) and dry_run)
    savepoints: list[str] = []
    if options.deletes_savepoints:
        savepoints = launched_repository(application).names()
    decided = decide(known, options, cluster=cluster, savepoints=savepoints)
    if not decided.tasks and not decided.deletes:
        raise OperationError(
            f"Nothing of {application} is left to reset: it has neither input nor internal topics.",
            remedy="name the application as its specification, or its application.id, does",
        )
    plan = OperationPlan(
        operation=KIND,
        application=application.name,
        reason=reason,
        decisions=decided.to_json(),
        holds_application=True,
    )
    outcome = perform(application.home, plan, dry_run=dry_run, progress=progress)
    return replace(outcome, steps=(*_which(application, cluster), *stopped, *outcome.steps))


def _which(application: Application, cluster: NamedCluster | None) -> tuple[str, ...]:
    """A line where what was launched and the file differ: a reset is about both."""
    if cluster is not None or not application.launched.note:
        return ()
    file = application.spec_path
    return (f"Go by what was launched for cluster, id and state.dir; the topology that starts next is that of {file}.",)


def _refuse_running(
    application: Application, known: KnownApplication, options: ResetOptions, *, will_stop: bool
) -> None:
    if will_stop:
        return
    signs = [activity.runs_here(application.directory)]
    if not options.force:
        admin = Connection.of(known.config).administrator()
        signs += [activity.runs_elsewhere(known.status), activity.members(admin, known.application_id)]
    if any(signs):
        raise activity.refusal(application.name, list(filter(None, signs)), what=KIND)
    StateDirectory(known.config.state_dir).check_unused(known.application_id)
