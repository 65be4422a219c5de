"""The checks of a preflight that compare a topology with what a broker says. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from millrace.config import ProcessingGuarantee, StreamsConfig
from millrace.ops.broker_view import BrokerView, TopicView
from millrace.ops.checks import Check
from millrace.ops.spec import ApplicationSpec, UpgradeMode
from millrace.topology.topology import SubTopology, Topology, full_topic_name


def broker_checks(spec: ApplicationSpec, topology: Topology, view: BrokerView) -> Iterator[Check]:
    """All checks, in an order in which a later one builds on earlier ones.

    Args:
        spec: the specification; its declared topics count as there, because a deployment creates them first.
        topology: what it builds.
        view: what the broker says.
    """
    config = spec.streams_config()
    known = _with_declared(spec, view)
    yield _topics_exist("input topics", input_topics(topology), known)
    yield _topics_exist("output topics", output_topics(topology, config), known)
    yield from _co_partitioning(topology, config, known)
    yield _internal_partitions(topology, config, known)
    yield _replication(spec, config, topology, known, view)
    if config.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2:
        yield _transaction_timeout(config, view)
    yield _running_topology(spec, topology, config, view)
    yield _group_members(config, view)


def input_topics(topology: Topology) -> tuple[str, ...]:
    """The topics that the user must provide, sorted."""
    return tuple(
        sorted(
            {
                topic
                for sub in topology.sub_topologies
                for source in sub.sources
                if not source.internal
                for topic in source.topics
            }
        )
    )


def output_topics(topology: Topology, config: StreamsConfig) -> tuple[str, ...]:
    """The topics that results and dead letters go to, sorted."""
    sinks = {sink.topic for sub in topology.sub_topologies for sink in sub.sinks if not sink.internal}
    dead_letters = config.errors_dead_letter_queue_topic_name
    return tuple(sorted(sinks | ({dead_letters} if dead_letters else set())))


def changelog_topics(topology: Topology, application_id: str) -> dict[str, str]:
    """The changelog topic of each logged store that has one of its own."""
    return {
        store.name: topic
        for sub in topology.sub_topologies
        for store in sub.stores
        if store.source_topic is None and (topic := store.changelog_topic(application_id)) is not None
    }


def _with_declared(spec: ApplicationSpec, view: BrokerView) -> dict[str, TopicView]:
    declared = {
        topic.name: TopicView(
            name=topic.name,
            partitions=topic.partitions,
            replicas=topic.replication_factor if topic.replication_factor > 0 else view.brokers,
            min_insync_replicas=int(topic.settings_text().get("min.insync.replicas", "1")),
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


def _co_partitioning(topology: Topology, config: StreamsConfig, known: Mapping[str, TopicView]) -> Iterator[Check]:
    for sub in topology.sub_topologies:
        counts = _partition_counts(sub, config, known)
        # Without a store nothing meets across topics, so their partitions need not correspond.
        if not sub.stores or len(counts) < 2:
            continue
        listed = ", ".join(f"{topic} has {count}" for topic, count in sorted(counts.items()))
        yield Check(
            name=f"co-partitioning of sub-topology {sub.number}",
            ok=len(set(counts.values())) == 1,
            text=listed,
            remedy="give them the same number of partitions, or repartition one of them in the topology",
        )


def _partition_counts(sub: SubTopology, config: StreamsConfig, known: Mapping[str, TopicView]) -> dict[str, int]:
    return {topic: known[topic].partitions for topic in sub.input_topics(config.application_id) if topic in known}


def _internal_partitions(topology: Topology, config: StreamsConfig, known: Mapping[str, TopicView]) -> Check:
    wrong = []
    for sub in topology.sub_topologies:
        counts = _partition_counts(sub, config, known)
        if not counts:
            continue
        for store in sub.stores:
            topic = None if store.source_topic else store.changelog_topic(config.application_id)
            if topic is not None and topic in known and known[topic].partitions != max(counts.values()):
                wrong.append(f"{topic} has {known[topic].partitions} and its task has {max(counts.values())}")
    for repartition in topology.repartition_topics:
        topic = full_topic_name(repartition.name, config.application_id, internal=True)
        if topic in known and repartition.partitions and known[topic].partitions != repartition.partitions:
            wrong.append(f"{topic} has {known[topic].partitions} and the topology asks for {repartition.partitions}")
    return Check(
        name="internal topics",
        ok=not wrong,
        text="; ".join(wrong) or "their partitions fit",
        remedy="keys would meet the wrong store: go back to the old number of partitions, or reset the application",
    )


def _replication(
    spec: ApplicationSpec,
    config: StreamsConfig,
    topology: Topology,
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
    internal = set(changelog_topics(topology, config.application_id).values())
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


def _running_topology(spec: ApplicationSpec, topology: Topology, config: StreamsConfig, view: BrokerView) -> Check:
    name = "state"
    lost = lost_changelogs(topology, config.application_id, view)
    status = view.statuses.get(config.application_id)
    changed = status is not None and status.topology_fingerprint not in {"", topology.fingerprint}
    if not lost:
        text = "the topology changed and keeps every store" if changed else "every store that has a changelog is kept"
        return Check(name=name, ok=True, text=text)
    listed = "; ".join(f"store {store} (topic {topic})" for store, topic in sorted(lost.items()))
    if spec.upgrade_mode is UpgradeMode.STATELESS:
        return Check(name=name, ok=True, text=f"left behind, as upgrade_mode is stateless: {listed}")
    return Check(
        name=name,
        ok=False,
        text=f"the new topology would lose {listed}",
        remedy="keep the stores' names, or set `upgrade_mode: stateless` if their content is not needed any more",
    )


def lost_changelogs(topology: Topology, application_id: str, view: BrokerView) -> dict[str, str]:
    """Stores that have a changelog on the broker and are not in the topology any more, with their topics.

    A topic of an application whose id begins with this one's (``orders`` and ``orders-eu``) is not counted, as far as
    that application has published a status.
    """
    kept = set(changelog_topics(topology, application_id).values())
    prefix, suffix = f"{application_id}-", "-changelog"
    others = tuple(f"{other}-" for other in view.statuses if other.startswith(prefix))
    return {
        topic.removeprefix(prefix).removesuffix(suffix): topic
        for topic in view.topics
        if topic.startswith(prefix) and topic.endswith(suffix) and topic not in kept and not topic.startswith(others)
    }


def _group_members(config: StreamsConfig, view: BrokerView) -> Check:
    return Check(
        name="group members",
        ok=not view.group_members,
        text=f"group {config.application_id}: " + ("; ".join(view.group_members) or "nobody else is in it"),
        remedy="stop them: a Kafka Streams or console consumer in the group would commit beside this application",
    )
