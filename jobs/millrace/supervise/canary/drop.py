"""Dropping a canary: all that was made for it is deleted, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from millrace.driver.matched_topics import with_topics_read
from millrace.dsl.loading import load_topology
from millrace.errors import OperationError
from millrace.install.application import Application
from millrace.install.connection import Connection
from millrace.install.spec import spec_file_of
from millrace.kafka.groups import delete_group
from millrace.operations import OperationPlan, Step, StepContext, operation, perform
from millrace.operations.outcome import Outcome
from millrace.operations.reset.resources import resources_of
from millrace.operations.savepoints.location import launched_repository
from millrace.operations.stop import stop
from millrace.state.directory import StateDirectory
from millrace.supervise.canary.clone import canary_of, canary_path, clone_of

KIND = "canary-drop"


def drop(
    application: Application,
    *,
    reason: str = "its canary was dropped",
    dry_run: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Stop the canary of an application, and delete its topics, its group, its stores and its specification.

    Every topic that is deleted begins with ``<application>-canary-``. The journals stay in its run directory.

    Args:
        application: the application, not the canary.
        reason: for the journal.
        dry_run: only say what would be done.
        progress: takes lines that say how far it is.

    Raises:
        OperationError: it has no canary, or something of it does not have its name.
        MillraceError: a step failed; it can be resumed, under the name of the clone.
    """
    canary, clone = canary_of(application), clone_of(application.name)
    chosen = Application(application.home, clone).launched
    spec = chosen.spec
    config = spec.streams_config()
    connection = Connection.of(config)
    statuses = connection.statuses()
    own = resources_of(clone, with_topics_read(load_topology(spec.module, config), config), statuses.get(clone))
    topics = sorted({*canary.made, *own.internal})
    if foreign := [name for name in topics if not name.startswith(f"{clone}-")]:
        raise OperationError(
            f"{', '.join(foreign)} would be deleted with {clone}, and does not have its name. Nothing was deleted.",
            remedy="delete what belongs to the canary by hand",
        )
    plan = OperationPlan(
        operation=KIND,
        application=clone,
        reason=reason,
        decisions={
            "of": application.name,
            "savepoint": canary.savepoint,
            "topics": topics,
            "state_dir": str(config.state_dir),
            # To reach the cluster with once the file is gone; variables are not filled in.
            "document": chosen.file.raw,
        },
        holds_application=True,
    )
    return perform(application.home, plan, dry_run=dry_run, progress=progress)


@operation(KIND)
def drop_steps(plan: OperationPlan) -> Sequence[Step]:
    """The steps of dropping a canary."""
    clone, decided = plan.application, plan.decisions
    return [
        Step(name="stop", text=f"Stop {clone}.", run=_stop),
        Step(name="topics", text=f"Delete its topics: {', '.join(decided['topics']) or 'none'}.", run=_topics),
        Step(name="group", text=f"Delete consumer group {clone}.", run=_group),
        Step(name="state", text=f"Delete its stores in {decided['state_dir']}.", run=_state),
        Step(
            name="savepoint",
            text=f"Delete savepoint {decided['savepoint']} of {decided['of']}, which was taken for it.",
            run=_savepoint,
        ),
        Step(name="files", text="Delete its specification and its record.", run=_files),
    ]


def _connection(context: StepContext) -> Connection:
    file = spec_file_of(context.plan.decisions["document"], where=f"the specification of {context.plan.application}")
    return Connection.of(file.spec.streams_config())


def _stop(context: StepContext) -> Mapping[str, Any]:
    return {"steps": list(stop(context.application, reason=context.plan.reason).steps)}


def _topics(context: StepContext) -> Mapping[str, Any]:
    admin = _connection(context).administrator()
    found = sorted(admin.describe_topics(context.plan.decisions["topics"]))
    admin.delete_topics(found)
    return {"deleted": found}


def _group(context: StepContext) -> None:
    delete_group(_connection(context).administrator(), context.plan.application)


def _state(context: StepContext) -> None:
    StateDirectory(context.plan.decisions["state_dir"]).clean(context.plan.application)


def _savepoint(context: StepContext) -> Mapping[str, Any]:
    of, name = context.plan.decisions["of"], context.plan.decisions["savepoint"]
    repository = launched_repository(Application(context.home, of))
    return {"freed_bytes": repository.remove(name) if name in repository.names() else 0}


def _files(context: StepContext) -> None:
    home, directory = context.home, context.directory
    home.spec_path(context.plan.application).unlink(missing_ok=True)
    for path in (
        directory.record,
        directory.spec,
        directory.code,
        directory.nodes,
        directory.ended,
        directory.last_good_spec,
        directory.previous_good_spec,
        directory.supervision,
        # Last: without it there is no canary to drop any more.
        canary_path(Application(home, context.plan.decisions["of"])),
    ):
        path.unlink(missing_ok=True)
