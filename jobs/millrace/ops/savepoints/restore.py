"""Restoring a savepoint: into the application it was taken of, or into a clone of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from millrace.errors import OperationError, StateError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.groups import live_members
from millrace.kafka.offsets import End, begin_offsets, end_offsets
from millrace.ops.home import Home
from millrace.ops.operations import OperationPlan, Step, operation, perform
from millrace.ops.outcome import Outcome
from millrace.ops.record import read_record
from millrace.ops.savepoints import restore_steps as steps
from millrace.ops.savepoints.fit import RestoreMode, check_outputs, check_topology, irrevocable, unlogged_stores
from millrace.ops.savepoints.location import Target, repository_of, spec_of, target_of
from millrace.ops.savepoints.log_writing import policies_to_restore
from millrace.ops.savepoints.manifest import Manifest, SavepointState

KIND = "restore"
_SHOWN = 20


def restore_savepoint(
    home: Home,
    application: str,
    savepoint: str,
    *,
    into: str = "",
    allow_dropped_stores: Collection[str] = (),
    allow_shared_outputs: Collection[str] = (),
    reason: str = "restored by hand",
    dry_run: bool = False,
    progress: Any = lambda _: None,
) -> Outcome:
    """Bring an application back to a savepoint: stores, changelogs, what waited between sub-topologies, and offsets.

    The application must be stopped, and is not started while this has not ended. Its changelogs hold the restored state
    and nothing else afterwards, so that it does not matter where the tasks run next. Input from the savepoint on is
    processed again, and its results are written again: the plan lists what is in the output topics since.

    Args:
        home: the installation.
        application: of which the savepoint is.
        savepoint: its name.
        into: the application that gets it; by default the one that it was taken of. Another one is a clone, with its
            own group, state and internal topics.
        allow_dropped_stores: stores of the savepoint that the topology need not have.
        allow_shared_outputs: output topics that a clone may share with the original.
        reason: for the journal.
        dry_run: only say what would be done.
        progress: takes lines that say how far it is.

    Raises:
        OperationError: the savepoint is not complete, the application runs, or another operation has not ended.
        TopologyError: the topology does not fit; the stores are named.
        StateError: input that the savepoint needs is not in the topics any more.
    """
    name = into or application
    target = target_of(spec_of(home, name, as_launched=False))
    repository = repository_of(home, target.spec, application=application)
    manifest = repository.read(savepoint)
    if manifest.state is not SavepointState.COMPLETED or manifest.point is None:
        raise OperationError(
            f"Savepoint {savepoint} of {application} is {manifest.state}, not complete.",
            remedy=f"choose another one: `millrace savepoint list {application}`",
        )
    _check_stopped(home, target)
    dropped = check_topology(manifest, target.topology, dropped=allow_dropped_stores)
    if name != application:
        check_outputs(manifest, target.topology, shared=allow_shared_outputs)
    admin = KafkaAdmin(target.config.bootstrap_servers, settings=target.config.client_settings("admin."))
    mode = RestoreMode.INSTALL if manifest.fingerprint == target.topology.fingerprint else RestoreMode.REWRITE
    _check_inputs(admin, manifest, target)
    changelogs = [
        topic
        for part in target.topology.sub_topologies
        for store in part.stores
        if store.source_topic is None and (topic := store.changelog_topic(name)) is not None
    ]
    existing = sorted(admin.describe_topics(changelogs))
    outputs = admin.describe_topics(sorted(target.topology.external_outputs))
    ends = end_offsets(
        admin,
        [(topic, number) for topic, described in outputs.items() for number in range(described.partitions)],
        End.HIGH_WATERMARK,
    )
    by_topic: dict[str, dict[int, int]] = {}
    for (topic, number), end in ends.items():
        by_topic.setdefault(topic, {})[number] = end
    plan = OperationPlan(
        operation=KIND,
        application=name,
        reason=reason,
        decisions={
            "savepoint": savepoint,
            "of": application,
            "repository": repository.url,
            "mode": str(mode),
            "policies": policies_to_restore(admin, existing),
            "dropped": list(dropped),
            "unlogged": unlogged_stores(manifest.summary) if mode is RestoreMode.REWRITE else [],
            "stays": irrevocable(manifest, by_topic) if name == application else [],
        },
        holds_application=True,
    )
    return perform(home, plan, dry_run=dry_run, progress=progress)


@operation(KIND)
def restore_operation(plan: OperationPlan) -> Sequence[Step]:
    """The steps of a restoration."""
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
        Step(name="topics", text=f"Create the internal topics of {name} that are missing.", run=steps.prepare_topics),
        Step(name="fetch", text=f"Fetch the files of {what} and check them.", run=steps.fetch_files),
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


def _check_stopped(home: Home, target: Target) -> None:
    name = target.config.application_id
    record = read_record(home.application(name))
    if record is not None and record.is_process_alive():
        raise OperationError(f"{name} runs.", remedy=f"stop it with `millrace stop {name}`")
    admin = KafkaAdmin(target.config.bootstrap_servers, settings=target.config.client_settings("admin."))
    membership = live_members(admin, name)
    if membership.is_live:
        raise OperationError(
            f"Consumer group {name} has live members: {membership}.", remedy="stop them, wherever they run"
        )


def _check_inputs(admin: KafkaAdmin, manifest: Manifest, target: Target) -> None:
    """Refuses where the input from the savepoint on is not there any more.

    Raises:
        StateError: names the topics and offsets.
    """
    assert manifest.point is not None
    external = {
        topic
        for part in target.topology.sub_topologies
        for source in part.sources
        if not source.internal
        for topic in source.topics
    }
    topics = admin.describe_topics(sorted(external))
    point, problems = manifest.point, []
    for topic in sorted(external & point.partitions.keys()):
        if topic not in topics:
            problems.append(f"{topic} does not exist")
        elif topics[topic].topic_id != point.topic_ids[topic]:
            problems.append(f"{topic} was deleted and created again")
        elif topics[topic].partitions != point.partitions[topic]:
            problems.append(f"{topic} had {point.partitions[topic]} partitions and has {topics[topic].partitions}")
    if not problems:
        offsets = {
            (each.topic, each.partition): each.offset
            for task in point.tasks.values()
            for each in task.inputs
            if each.topic in external
        }
        begins, ends = begin_offsets(admin, offsets), end_offsets(admin, offsets)
        problems = [
            f"{topic}-{number} has offsets {begins[topic, number]} to {ends[topic, number]}, not {offset}"
            for (topic, number), offset in offsets.items()
            if not begins[topic, number] <= offset <= ends[topic, number]
        ]
    if problems:
        raise StateError(
            f"Savepoint {manifest.name} does not fit the input topics: {'; '.join(problems)}.",
            remedy="choose a younger savepoint, or reset the application",
        )
