"""The checks of a preflight that compare a topology with what a broker says. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from millrace.config import ProcessingGuarantee, StreamsConfig
from millrace.errors import TopologyError
from millrace.install.spec import ApplicationSpec, UpgradeMode
from millrace.kafka.record_limits import AFTER_MAX, TopicLimits
from millrace.kafka.topics import damaging_settings
from millrace.launch.broker_view import BrokerView, TopicView
from millrace.launch.checks import Check
from millrace.topology.diff import ChangeKind, TopologyDiff, diff
from millrace.topology.labels import written_topic
from millrace.topology.layout import ApplicationTopics, TopologyLayout
from millrace.topology.naming import colliding_names
from millrace.topology.parts import full_topic_name
from millrace.topology.topology import FrozenTopology


def broker_checks(
    spec: ApplicationSpec, topology: FrozenTopology, view: BrokerView, *, discards_state: bool = False
) -> Iterator[Check]:
    """Yields all checks, in an order in which a later one builds on earlier ones.

    Args:
        spec: the specification; its declared topics count as there, because a deployment creates them first.
        topology: what it builds.
        view: what the broker says.
    """
    config = spec.streams_config()
    known = _with_declared(spec, view)
    yield _topics_exist("input topics", input_topics(topology), known)
    yield _topics_exist("output topics", output_topics(topology, config), known)
    yield _topic_names(spec, topology, config, view)
    yield _internal_settings(topology, config, view)
    yield from _dead_letter_topic(config, known)
    yield from _chosen_topics(topology)
    yield from _co_partitioning(topology, config, known)
    if discards_state:
        yield Check(name="state", ok=True, text="it is deleted, or replaced, before the start")
    else:
        yield _internal_partitions(topology, config, known)
    yield _replication(spec, config, topology, known, view)
    if config.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2:
        yield _transaction_timeout(config, view)
    if not discards_state:
        yield from _running_topology(spec, topology, config, view)
    yield _group_members(config, view)


def input_topics(topology: FrozenTopology) -> tuple[str, ...]:
    """Returns the topics that the user must provide, sorted."""
    return tuple(sorted(topology.external_inputs))


def output_topics(topology: FrozenTopology, config: StreamsConfig) -> tuple[str, ...]:
    """Returns the topics that results and dead-letter records go to, sorted."""
    sinks = topology.external_outputs
    dead_letters = config.errors_dead_letter_queue_topic_name
    return tuple(sorted(sinks | ({dead_letters} if dead_letters else set())))


def _with_declared(spec: ApplicationSpec, view: BrokerView) -> dict[str, TopicView]:
    declared = {
        topic.name: TopicView(
            name=topic.name,
            partitions=topic.partitions,
            replicas=topic.replication_factor if topic.replication_factor > 0 else view.brokers,
            min_insync_replicas=int(topic.settings_text().get("min.insync.replicas", "1")),
            settings=topic.settings_text(),
        )
        for topic in spec.topics
    }
    return {**declared, **view.topics}


def _topics_exist(name: str, needed: tuple[str, ...], known: Mapping[str, TopicView]) -> Check:
    missing = [topic for topic in needed if topic not in known]
    if missing:
        return Check(
            name=name,
            ok=False,
            text=f"missing: {', '.join(missing)}",
            remedy="create them, declare them under `topics` in the specification, or correct their names",
        )
    return Check(
        name=name,
        ok=True,
        text=", ".join(f"{topic} ({known[topic].partitions} partitions)" for topic in needed) or "none",
    )


def _topic_names(spec: ApplicationSpec, topology: FrozenTopology, config: StreamsConfig, view: BrokerView) -> Check:
    """Those that are still to be created; what is not legal by itself was found when the topology was built."""
    made = {*ApplicationTopics(topology, config.application_id).own, *(topic.name for topic in spec.topics)}
    collisions = colliding_names(sorted(made - view.names), view.names)
    return Check(
        name="topic names",
        ok=not collisions,
        text="; ".join(collisions) or "the broker takes them",
        remedy="the broker refuses a topic whose name differs from another's in '.' and '_' only: rename one of them",
    )


def _internal_settings(topology: FrozenTopology, config: StreamsConfig, view: BrokerView) -> Check:
    """What existing internal topics do to their records."""
    topics = ApplicationTopics(topology, config.application_id)
    names = [*topics.repartition_topics, *topics.own_changelogs.values()]
    wanted = config.client_settings("topic.").get("message.timestamp.type", "CreateTime")
    existing = {name: view.topics[name].settings for name in names if name in view.topics}
    wrong = [
        problem
        for name, settings in existing.items()
        if (problem := damaging_settings(name, settings, wanted_timestamp_type=wanted))
    ]
    unlimited = TopicLimits().after_max_ms
    low = [name for name, settings in existing.items() if TopicLimits.of(settings).after_max_ms < unlimited]
    return Check(
        name="internal topic settings",
        ok=not wrong,
        text="; ".join(wrong)
        or (f"{', '.join(low)}: {AFTER_MAX} is raised at the start" if low else "they take what the inputs have"),
        remedy="correct the settings of the topics (kafka-configs.sh --alter)",
    )


def _dead_letter_topic(config: StreamsConfig, known: Mapping[str, TopicView]) -> Iterator[Check]:
    name = config.errors_dead_letter_queue_topic_name
    if name is not None and name in known:
        policy = known[name].settings.get("cleanup.policy", "delete")
        yield Check(
            name="dead-letter topic",
            ok="compact" not in policy,
            text=f"{name} has cleanup.policy={policy}",
            remedy="set its cleanup.policy to delete: a compacted topic refuses records without a key, and keeps only "
            "the last one of each key",
        )


def _chosen_topics(topology: FrozenTopology) -> Iterator[Check]:
    """What cannot be looked at before records come."""
    if topology.choosing_sinks:
        chosen = "; ".join(f"{sink.name}: {written_topic(sink)}" for sink in topology.choosing_sinks)
        yield Check(
            name="chosen topics",
            ok=True,
            text=f"not known before records come, and must exist then, writable for the application: {chosen}",
        )


def _co_partitioning(
    topology: FrozenTopology, config: StreamsConfig, known: Mapping[str, TopicView]
) -> Iterator[Check]:
    internal = {repartition.name for repartition in topology.repartition_topics}
    for group in sorted(topology.co_partition_groups, key=sorted):
        names = {full_topic_name(topic, config.application_id, internal=topic in internal) for topic in group}
        counts = {topic: known[topic].partitions for topic in sorted(names) if topic in known}
        yield Check(
            name="co-partitioning",
            ok=len(set(counts.values())) <= 1,
            text=", ".join(f"{topic} has {count} partitions" for topic, count in counts.items()),
            remedy="give them the same number of partitions, or repartition one of them in the topology",
        )


def _internal_partitions(topology: FrozenTopology, config: StreamsConfig, known: Mapping[str, TopicView]) -> Check:
    inputs = input_topics(topology)
    if any(topic not in known for topic in inputs):
        return Check(name="internal topics", ok=True, text="their partitions follow from the input topics")
    try:
        counts = {topic: known[topic].partitions for topic in inputs}
        wanted = TopologyLayout.over_inputs(topology, config.application_id, counts).own_partitions
    except TopologyError as error:
        return Check(name="internal topics", ok=False, text=error.message, remedy=error.remedy)
    wrong = [
        f"{topic} has {known[topic].partitions} partitions and needs {count}"
        for topic, count in sorted(wanted.items())
        if topic in known and known[topic].partitions != count
    ]
    return Check(
        name="internal topics",
        ok=not wrong,
        text="; ".join(wrong) or "their partitions fit",
        remedy="keys would meet the wrong store: go back to the old number of partitions, or reset the application",
    )


def _replication(
    spec: ApplicationSpec,
    config: StreamsConfig,
    topology: FrozenTopology,
    known: Mapping[str, TopicView],
    view: BrokerView,
) -> Check:
    problems = []
    if config.replication_factor > view.brokers:
        problems.append(f"replication.factor is {config.replication_factor} and there are {view.brokers} brokers")
    problems += [
        f"{topic.name} asks for {topic.replication_factor} replicas of {view.brokers} brokers"
        for topic in spec.topics
        if topic.name not in view.topics and topic.replication_factor > view.brokers
    ]
    internal = set(ApplicationTopics(topology, config.application_id).own_changelogs.values())
    for name in sorted({*output_topics(topology, config), *internal} & set(known)):
        found = known[name]
        if found.min_insync_replicas > found.replicas:
            problems.append(f"{name} has {found.replicas} replicas and min.insync.replicas={found.min_insync_replicas}")
    least = int(view.settings.get("transaction.state.log.min.isr", "1"))
    if config.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2 and least > view.brokers:
        problems.append(f"transaction.state.log.min.isr is {least} and there are {view.brokers} brokers")
    return Check(
        name="replication",
        ok=not problems,
        text="; ".join(problems) or f"fits {view.brokers} brokers and {config.processing_guarantee}",
        remedy="every write would fail: lower min.insync.replicas or replication.factor, or add brokers",
    )


def _transaction_timeout(config: StreamsConfig, view: BrokerView) -> Check:
    most = int(view.settings.get("transaction.max.timeout.ms", "900000"))
    return Check(
        name="transaction timeout",
        ok=config.transaction_timeout_ms <= most,
        text=f"transaction.timeout.ms is {config.transaction_timeout_ms}, the broker allows {most}",
        remedy="lower transaction.timeout.ms, or raise transaction.max.timeout.ms of the broker",
    )


def _running_topology(
    spec: ApplicationSpec, topology: FrozenTopology, config: StreamsConfig, view: BrokerView
) -> Iterator[Check]:
    status = view.statuses.get(config.application_id)
    changed = status is not None and status.topology_summary and status.topology_fingerprint != topology.fingerprint
    try:
        found = diff(status.topology_summary, topology) if status is not None and changed else TopologyDiff(())
    except TopologyError as error:
        yield Check(name="running topology", ok=False, text=error.message, remedy=error.remedy)
        return
    misread = found.of_kind(ChangeKind.INCOMPATIBLE)
    yield Check(
        name="running topology",
        ok=not misread,
        text="; ".join(change.text for change in misread) or ("changed, and compatible" if changed else "the same"),
        remedy="give what changed another name, so that it starts empty beside the old one",
    )
    orphans = {change.subject: change.text for change in found.of_kind(ChangeKind.ORPHANED)}
    for store, topic in lost_changelogs(topology, config.application_id, view).items():
        orphans.setdefault(store, f"store {store} and its changelog {topic} would not be used any more")
    listed = "; ".join(orphans[subject] for subject in sorted(orphans))
    given_up = spec.upgrade_mode is UpgradeMode.STATELESS
    yield Check(
        name="state",
        ok=not orphans or given_up,
        text=(f"given up, as upgrade_mode is stateless: {listed}" if given_up else listed)
        if orphans
        else "every store that the application has is kept",
        remedy="keep the names of the stores, or set `upgrade_mode: stateless` if what they hold is not needed",
    )


def lost_changelogs(topology: FrozenTopology, application_id: str, view: BrokerView) -> dict[str, str]:
    """Stores that have a changelog on the broker and are not in the topology any more, with their topics.

    A topic of an application whose id begins with this one's (``orders`` and ``orders-eu``) is not counted, as far as
    that application has published a status.
    """
    kept = set(ApplicationTopics(topology, application_id).own_changelogs.values())
    prefix, suffix = f"{application_id}-", "-changelog"
    others = tuple(f"{other}-" for other in view.statuses if other.startswith(prefix))
    return {
        topic.removeprefix(prefix).removesuffix(suffix): topic
        for topic in view.names
        if topic.startswith(prefix) and topic.endswith(suffix) and topic not in kept and not topic.startswith(others)
    }


def _group_members(config: StreamsConfig, view: BrokerView) -> Check:
    return Check(
        name="group members",
        ok=not view.group_members,
        text=view.group_members or f"no member is in group {config.application_id}",
        remedy="stop them: a Kafka Streams or console consumer in the group would commit beside this application",
    )
