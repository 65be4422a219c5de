"""The state on the way to another specification and back: a savepoint, a reset, a restoration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millrace.driver.matched_topics import with_topics_to_read
from millrace.dsl.loading import load_topology
from millrace.errors import MillraceError
from millrace.install.application import Application
from millrace.install.connection import Connection
from millrace.install.spec import SpecFile
from millrace.install.which_spec import Use
from millrace.kafka.offsets import begin_offsets, committed_offsets, end_offsets
from millrace.operations import OperationPlan, Step, StepContext, abandon
from millrace.operations.embedding import embedded
from millrace.operations.reset.decisions import ResetDecisions
from millrace.operations.reset.known import KnownApplication
from millrace.operations.reset.options import ResetOptions
from millrace.operations.reset.plan import decide
from millrace.operations.reset.steps import KIND as RESET
from millrace.operations.reset.steps import steps as reset_steps
from millrace.operations.reset.targets import ToOffsets
from millrace.operations.savepoints.create import KIND as SAVEPOINT
from millrace.operations.savepoints.create import SAVEPOINT_STEPS, mark_failed, savepoint_steps
from millrace.operations.savepoints.manage import verify_savepoint
from millrace.operations.savepoints.repository import SavepointRepository
from millrace.operations.savepoints.restore import RESTORATION_STEPS, plan_restoration, restore_operation
from millrace.supervise.upgrade.plan import SavepointDecisions, UpgradePlan
from millrace.topology.diff import diff
from millrace.topology.parts import full_topic_name
from millrace.topology.topic_partition import TopicPartition
from millrace.topology.topology import FrozenTopology

_RESET_TEXTS = {
    "fence": "Make sure that no process runs it, and fence its last driver.",
    "offsets": "Sign the committed offsets of its input topics again, so that no old state is taken for its own.",
    "internal-topics": "Delete its changelogs and the repartition topics that the new topology does not have.",
    "local-state": "Remove its stores and standby copies from the state directory of this host.",
    "status": "Say in the status topic that the next start takes any topology.",
    "check": "Check that all of this holds.",
}


def taking_a_savepoint(name: str, decided: SavepointDecisions) -> list[Step]:
    """Steps that take a savepoint, and read every file of it back."""
    inner = OperationPlan(
        operation=SAVEPOINT, application=name, reason="taken before an upgrade", decisions=decided.model_dump()
    )
    texts = {step.name: step.text for step in savepoint_steps(inner)}
    steps = embedded(SAVEPOINT, [(each, texts[each]) for each in SAVEPOINT_STEPS], lambda _: inner, savepoint_steps)
    verify = Step(
        name="savepoint-verify",
        text=f"Read every file of savepoint {decided.name} back and compare it with the manifest.",
        run=lambda context: {"text": verify_savepoint(context.application, decided.name).text},
    )
    return [*steps, verify]


def give_savepoint_up(application: Application, decided: SavepointDecisions, error: MillraceError) -> None:
    """Ends an upgrade whose savepoint failed: nothing was stopped, and nothing of it is in anybody's way."""
    repository = SavepointRepository(decided.repository, application.name)
    mark_failed(application, repository, decided.name, error)
    abandon(application, reason=error.message)


def giving_state_up(
    prefix: str, spec: SpecFile, use: Use, *, when: str = "", is_wanted: Any = lambda _: True
) -> list[Step]:
    """Steps that reset the application but for the offsets of its input topics.

    Args:
        prefix: of their names.
        spec: what is launched next.
        use: which specification that is when the steps run: they read the connection from it.
        when: what the texts begin with.
        is_wanted: takes the context; where it says false, nothing is reset.
    """

    def plan_of(context: StepContext) -> OperationPlan | None:
        decisions = context.results[f"{prefix}-decide"]
        if "skipped" in decisions:
            return None
        name = context.plan.application
        return OperationPlan(operation=RESET, application=name, reason=context.plan.reason, decisions=decisions)

    def decide_it(context: StepContext) -> Mapping[str, Any]:
        return decide_reset(spec).model_copy(update={"use": use}).to_json() if is_wanted(context) else {"skipped": True}

    decided = Step(
        name=f"{prefix}-decide", text=f"{when}Look what belongs to it, and where its offsets are.", run=decide_it
    )
    texts = [(name, when + text) for name, text in _RESET_TEXTS.items()]
    return [decided, *embedded(prefix, texts, plan_of, reset_steps)]


def decide_reset(spec: SpecFile) -> ResetDecisions:
    """Returns the reset of a stopped application that keeps its input positions and repartition topics.

    Input topics that it has not committed in yet begin where ``auto.offset.reset`` says.
    """
    config = spec.spec.streams_config()
    topology = with_topics_to_read(load_topology(spec.spec.module, config), config)
    connection = Connection.of(config)
    known = KnownApplication(
        config=config,
        topology=topology,
        statuses=connection.statuses(),
    )
    admin = connection.administrator()
    found = admin.describe_topics(sorted(known.current.inputs)).values()
    topic_partitions = [topic_partition for topic in found for topic_partition in topic.topic_partitions]
    committed = committed_offsets(admin, config.application_id, topic_partitions)
    fresh = [topic_partition for topic_partition in topic_partitions if topic_partition not in committed]
    latest = _read_from_the_end(topology, config.application_id, config.auto_offset_reset)
    starts: dict[TopicPartition, int] = {
        **begin_offsets(admin, [topic_partition for topic_partition in fresh if topic_partition[0] not in latest]),
        **end_offsets(admin, [topic_partition for topic_partition in fresh if topic_partition[0] in latest]),
    }
    options = ResetOptions(to=ToOffsets(starts), keeps_waiting=True, discards_topology=True)
    return decide(known, options)


def _read_from_the_end(topology: FrozenTopology, application_id: str, default: str) -> set[str]:
    return {
        full_topic_name(topic, application_id, internal=source.internal)
        for part in topology.sub_topologies
        for source in part.sources
        for topic in source.topics
        if not source.internal and (source.offset_reset or default) == "latest"
    }


def misfit(spec: SpecFile) -> str:
    """Returns the stores that do not fit the topology of a specification; empty where all do.

    It goes by the status topic: a driver that has never come so far as to publish its topology has written nothing.
    """
    config = spec.spec.streams_config()
    topology = load_topology(spec.spec.module, config)
    connection = Connection.of(config)
    statuses = connection.statuses()
    status = statuses.get(config.application_id)
    if status is None or not status.topology_summary or status.topology_fingerprint == topology.fingerprint:
        return ""
    found = diff(status.topology_summary, topology)
    return "; ".join(change.text for change in found.changes) if found.loses_state else ""


def restoring(prefix: str, decided: UpgradePlan, *, when: str, is_wanted: Any) -> list[Step]:
    """Steps that restore the savepoint of an upgrade into what was launched before it.

    Args:
        prefix: of their names.
        decided: the upgrade.
        when: what the texts begin with.
        is_wanted: takes the context; where it says false, nothing is restored.
    """

    def decide_it(context: StepContext) -> Mapping[str, Any]:
        if not is_wanted(context):
            return {"skipped": True}
        plan = plan_restoration(context.application, decided.way_back, as_launched=True, reason=context.plan.reason)
        return plan.decisions

    def plan_of(context: StepContext) -> OperationPlan | None:
        decisions = context.results[f"{prefix}-decide"]
        if "skipped" in decisions:
            return None
        name = context.plan.application
        return OperationPlan(operation="restore", application=name, reason=context.plan.reason, decisions=decisions)

    first = Step(
        name=f"{prefix}-decide",
        text=f"{when}Where its state does not fit any more, restore savepoint {decided.way_back}.",
        run=decide_it,
    )
    texts = [(name, f"{when}Restoration of {decided.way_back}: {name}.") for name in RESTORATION_STEPS]
    return [first, *embedded(prefix, texts, plan_of, restore_operation)]
