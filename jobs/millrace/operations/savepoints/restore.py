"""Restoring a savepoint: into the application it was taken of, or into a clone of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from millrace.driver.preparation import Preparer
from millrace.errors import OperationError
from millrace.install.application import Application
from millrace.install.connection import admin_of
from millrace.install.launchers import refuse_state_elsewhere
from millrace.install.spec import ApplicationSpec
from millrace.kafka.groups import live_members
from millrace.kafka.offsets import End, end_offsets
from millrace.operations import OperationPlan, Step, operation, perform
from millrace.operations.outcome import Outcome
from millrace.operations.savepoints import restore_steps as steps
from millrace.operations.savepoints.fit import RestoreMode, check_outputs, check_topology, irrevocable, unlogged_stores
from millrace.operations.savepoints.inputs import Inputs, parse_starts
from millrace.operations.savepoints.location import Target, launched_repository, repository_of, target_of
from millrace.operations.savepoints.log_writing import policies_to_restore
from millrace.operations.savepoints.manifest import SavepointState
from millrace.operations.savepoints.placing import by_topic, moves_keys
from millrace.operations.savepoints.repository import SavepointRepository

KIND = "restore"
_SHOWN = 20


def restore_savepoint(
    application: Application,
    savepoint: str,
    *,
    into: str = "",
    allow_dropped_stores: Collection[str] = (),
    allow_shared_outputs: Collection[str] = (),
    starts: Sequence[str] = (),
    reason: str = "restored by hand",
    dry_run: bool = False,
    progress: Any = lambda _: None,
) -> Outcome:
    """Restores an application from a savepoint: stores, changelogs, the records in repartition topics, and offsets.

    The application must be stopped, and is not started while this has not ended. Its changelogs hold the restored state
    and nothing else afterwards, so that it does not matter where the tasks run next. Input from the savepoint on is
    processed again, and its results are written again: the plan lists what is in the output topics since.

    Args:
        application: of which the savepoint is.
        savepoint: its name.
        into: the application that gets it; by default the one that it was taken of. Another one is a clone, with its
            own group, state and internal topics.
        allow_dropped_stores: stores of the savepoint that the topology need not have.
        allow_shared_outputs: output topics that a clone may share with the original.
        starts: where input topics start of which the savepoint does not say it: ``TOPIC=earliest``, ``TOPIC=latest``,
            ``TOPIC:PARTITION=OFFSET``. With another number of partitions the stores are divided again by their keys,
            and the savepoint must have processed what was in the old partitions.
        reason: for the journal.
        dry_run: only say what would be done.
        progress: takes lines that say how far it is.

    Raises:
        OperationError: the savepoint is not complete, the application runs, or another operation has not ended.
        TopologyError: the topology does not fit; the stores are named.
        StateError: input that the savepoint needs is not in the topics any more.
    """
    plan = plan_restoration(
        application,
        savepoint,
        into=into,
        allow_dropped_stores=allow_dropped_stores,
        allow_shared_outputs=allow_shared_outputs,
        starts=starts,
        reason=reason,
    )
    return perform(application.home, plan, dry_run=dry_run, progress=progress)


def plan_restoration(
    application: Application,
    savepoint: str,
    *,
    into: str = "",
    as_launched: bool = False,
    allow_dropped_stores: Collection[str] = (),
    allow_shared_outputs: Collection[str] = (),
    starts: Sequence[str] = (),
    reason: str = "",
) -> OperationPlan:
    """Returns the plan of a restoration, decided and checked.

    Arguments and errors are those of :func:`restore_savepoint`.

    Args:
        application: see there.
        savepoint: see there.
        into: see there.
        as_launched: restore into what was launched last, not into what the specification says now.
        allow_dropped_stores: see there.
        allow_shared_outputs: see there.
        starts: see there.
        reason: see there.
    """
    receiver = Application(application.home, into or application.name)
    name = receiver.name
    target = target_of((receiver.launched if as_launched else receiver.desired).spec)
    refuse_state_elsewhere(target.spec, what="restore a savepoint into")
    repository = _repository_of_source(application, target.spec)
    manifest = repository.read(savepoint)
    if manifest.state is not SavepointState.COMPLETED or manifest.point is None:
        raise OperationError(
            f"Savepoint {savepoint} of {application} is {manifest.state}, not complete.",
            remedy=f"choose another one: `millrace savepoint list {application}`",
        )
    _check_stopped(receiver, target)
    dropped = check_topology(manifest, target.topology, dropped=allow_dropped_stores)
    if receiver != application:
        check_outputs(manifest, target.topology, shared=allow_shared_outputs)
    admin = admin_of(target.config)
    inputs = Inputs(admin, manifest, target, parse_starts(starts))
    offsets = inputs.offsets()
    internal = Preparer(target.config, target.topology).internal_topics()
    existing = admin.describe_topics([spec.name for spec in internal])
    recreated = [
        spec.name for spec in internal if spec.name in existing and existing[spec.name].partitions != spec.partitions
    ]
    moves = moves_keys(manifest, target.topology, inputs.topics, name)
    same = manifest.fingerprint == target.topology.fingerprint and not moves
    mode = RestoreMode.INSTALL if same else RestoreMode.REWRITE
    outputs = admin.describe_topics(sorted(target.topology.external_outputs))
    ends = end_offsets(
        admin,
        [topic_partition for topic in outputs.values() for topic_partition in topic.topic_partitions],
        End.HIGH_WATERMARK,
    )
    return OperationPlan(
        operation=KIND,
        application=name,
        reason=reason,
        decisions={
            "savepoint": savepoint,
            "as_launched": as_launched,
            "of": application.name,
            "repository": repository.url,
            "mode": str(mode),
            "policies": policies_to_restore(admin, internal),
            "offsets": by_topic(offsets),
            "recreated": recreated,
            "dropped": list(dropped),
            "unlogged": unlogged_stores(manifest.summary, mode),
            "stays": irrevocable(manifest, by_topic(ends)) if receiver == application else [],
        },
        holds_application=True,
    )


def _repository_of_source(application: Application, target: ApplicationSpec) -> SavepointRepository:
    """Where the application that the savepoint is of has put it; where that is not known here, as the target does."""
    if application.name == target.name or _is_known(application):
        return launched_repository(application)
    return repository_of(application.home, target, application=application.name)


def _is_known(application: Application) -> bool:
    return application.directory.spec.exists() or application.spec_path.exists()


@operation(KIND)
def restore_operation(plan: OperationPlan) -> Sequence[Step]:
    """Returns the steps of a restoration."""
    name, decisions = plan.application, plan.decisions
    what = f"savepoint {decisions['savepoint']} of {decisions['of']}"
    install = decisions["mode"] == RestoreMode.INSTALL
    stays: list[str] = decisions["stays"]
    lost = [
        *(f"store {store} is dropped" for store in decisions["dropped"]),
        *(f"store {store} has no changelog and starts empty" for store in decisions["unlogged"]),
        *(f"results since the savepoint stay: {each}" for each in stays[:_SHOWN]),
        *([f"and {len(stays) - _SHOWN} more partitions"] if len(stays) > _SHOWN else []),
    ]
    return [
        Step(
            name="fence", text=f"Fence all producers of {name}, so that nothing of it writes any more.", run=steps.fence
        ),
        Step(name="fetch", text=f"Fetch the files of {what} and check them.", run=steps.fetch_files),
        Step(
            name="topics",
            text=f"Create the internal topics of {name} that are missing."
            + "".join(f" Delete {topic}, which has another number of partitions." for topic in decisions["recreated"]),
            run=steps.prepare_topics,
        ),
        Step(
            name="changelogs", text="Write the stores behind the ends of their changelogs.", run=steps.write_changelogs
        ),
        Step(name="purge", text="Delete what the changelogs had before.", run=steps.purge_changelogs),
        Step(
            name="waiting",
            text="Empty the repartition topics, and write what waited in them at the savepoint.",
            run=steps.write_waiting,
        ),
        Step(
            name="install",
            text="Put the stores into the state directory."
            if install
            else "Remove the local state; the tasks restore it from the changelogs.",
            run=steps.install,
        ),
        Step(name="offsets", text=f"Commit the offsets of group {name}, signed, in one transaction.", run=steps.commit),
        Step(
            name="check",
            text="Check offsets, changelogs and stores." + "".join(f" Not taken back: {each}." for each in lost),
            run=steps.check,
        ),
    ]


RESTORATION_STEPS = (
    "fence", "fetch", "topics", "changelogs", "purge", "waiting", "install", "offsets", "check",
)  # fmt: skip
"""Names of the steps of a restoration, for operations that contain one."""


def _check_stopped(application: Application, target: Target) -> None:
    name = target.config.application_id
    record = application.record
    if record is not None and record.is_driver_alive(application.directory):
        raise OperationError(f"{name} runs.", remedy=f"stop it with `millrace stop {name}`")
    admin = admin_of(target.config)
    membership = live_members(admin, name)
    if membership.is_live:
        raise OperationError(
            f"Consumer group {name} has live members: {membership}.", remedy="stop them, wherever they run"
        )
