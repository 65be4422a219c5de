"""The preparation of a start: query plans, internal topics and starting offsets, from the topology and the broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import structlog

from millrace.config import ProcessingGuarantee, StreamsConfig
from millrace.driver.changelogs import check_changelogs, recorded_changelogs
from millrace.driver.internal_topics import check_existing, internal_topics
from millrace.driver.start_commits import commits_of_new_partitions, commits_of_new_run, number_of_run
from millrace.driver.start_offsets import (
    ChangelogTopic,
    InputTopic,
    LastRun,
    Start,
    StartCandidate,
    SubTopologyInputs,
    starting_offsets,
)
from millrace.driver.status import ApplicationStatus
from millrace.errors import OffsetOutOfRangeError, PreflightError, TopologyError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.groups import fence_and_commit
from millrace.kafka.offsets import CommittedOffset, begin_offsets, committed_offsets, end_offsets
from millrace.kafka.producer import TaskProducer
from millrace.kafka.record_limits import TopicLimits
from millrace.kafka.topics import TopicDescription, TopicSpec
from millrace.spark.plan import QueryPlan
from millrace.task.signature import Signature
from millrace.task.spec import GlobalStoreSpec
from millrace.topology.diff import ChangeKind, diff
from millrace.topology.layout import (
    ApplicationTopics,
    SubTopologyLayout,
    TopologyLayout,
    start_transactional_id,
)
from millrace.topology.parts import GlobalStore, SubTopology, full_topic_name
from millrace.topology.topic_partition import TopicPartition
from millrace.topology.topology import FrozenTopology

log = structlog.get_logger(__name__)

_DEFAULT_TOMBSTONE_RETENTION_MS = 86_400_000


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """The facts about an application's topics and offsets after older attempts were fenced.

    Args:
        plans: one for each sub-topology.
        starts: where each input partition starts.
        topics: the topics that the application reads or writes.
    """

    plans: tuple[QueryPlan, ...]
    starts: Mapping[TopicPartition, Start]
    topics: Mapping[str, TopicDescription]


class Preparer:
    """The preparation of an application's start.

    Args:
        config: its configuration.
        topology: its topology.
        discards_state: whether a changed topology may abandon stores that it no longer has.
    """

    def __init__(self, config: StreamsConfig, topology: FrozenTopology, *, discards_state: bool = False) -> None:
        self._config = config
        self._topology = topology
        self._discards_state = discards_state
        self._names = ApplicationTopics(topology, config.application_id)
        self._admin = KafkaAdmin(config.bootstrap_servers, settings=config.client_settings("admin."))

    def check_topics(self) -> None:
        """Checks that every topic exists that Millrace does not create itself.

        Raises:
            BrokerUnavailableError: no broker answers.
            PreflightError: topics are missing.
        """
        self._described_external()

    def internal_topics(self) -> list[TopicSpec]:
        """Returns the internal topics that the application needs, given the existing topics.

        Raises:
            PreflightError: topics that are not the application's own are missing.
        """
        return self._internal_specs(self._described_external())

    def prepare_topics(self) -> dict[str, TopicDescription]:
        """Creates missing internal topics; returns all topics that the application reads or writes.

        Raises:
            PreflightError: topics that are not the application's own are missing, or an internal one has another
                number of partitions than it needs.
        """
        external = self._described_external()
        return {**external, **self._internal_topics(self._internal_specs(external))}

    def prepare(
        self,
        last: ApplicationStatus | None,
        *,
        run_id: int,
        driver: tuple[int, str] = (0, ""),
        confirm: Callable[[], None] = lambda: None,
    ) -> Preparation:
        """Creates internal topics, decides the starting offsets, and commits those of new partitions.

        A crash midway is harmless: everything here finds its own traces and goes on.

        Args:
            last: the status of the run before, ``None`` where there was none.
            run_id: number of this run; a higher one is taken where the group has commits of that one already.
            driver: number and run of the driver, by which its tasks know whether it is still the newest.
            confirm: called before anything is committed; raises where a newer driver has taken over. What was read
                until then is of no newer one.

        Raises:
            DriverFencedError: see ``confirm``.
            MillraceError: topics are missing, or offsets and state do not fit; see ``starting_offsets``.
        """
        self._check_topology(last)
        external = self._described_external()
        internal = self._internal_specs(external)
        existing = self._admin.describe_topics([spec.name for spec in internal])
        # Before missing ones are created, which would hide that they are gone.
        check_changelogs(
            recorded_changelogs(
                self._admin,
                self._topology,
                {**external, **existing},
                last_ids=last.changelog_topic_ids if last is not None else {},
                application_id=self._config.application_id,
            ),
            self._config.application_id,
        )
        topics = {**external, **self._internal_topics(internal)}
        topic_partitions = self._layout(topics).inputs
        commits = committed_offsets(self._admin, self._config.application_id, topic_partitions)
        # Commits of a newer driver would make this one's number the higher.
        confirm()
        run_id = number_of_run(commits, epoch=run_id)
        if commits and last is not None and last.topology_fingerprint != self._topology.fingerprint:
            self._sign_again(topic_partitions, last, run_id)
            commits = committed_offsets(self._admin, self._config.application_id, topic_partitions)
        starts, settled = self._starts_of_settled(topics, topic_partitions, commits, last)
        confirm()
        self._commit_new(topics, starts, settled, run_id)
        plans = tuple(
            replace(plan, driver_epoch=driver[0], driver_run=driver[1]) for plan in self._plans(topics, run_id)
        )
        return Preparation(plans=plans, starts=starts, topics=topics)

    def _starts_of_settled(
        self,
        topics: Mapping[str, TopicDescription],
        topic_partitions: list[TopicPartition],
        commits: Mapping[TopicPartition, CommittedOffset],
        last: ApplicationStatus | None,
    ) -> tuple[dict[TopicPartition, Start], Mapping[TopicPartition, CommittedOffset]]:
        """Returns the start of each partition, and the commits that it was decided from.

        Offsets that are not in the log are read again before that is said: an attempt of the driver before may have
        committed, and what it had processed may have been deleted, after they were read.
        """
        while True:
            try:
                return self._starts(topics, commits, last), commits
            except OffsetOutOfRangeError:
                again = committed_offsets(self._admin, self._config.application_id, topic_partitions)
                if again == commits:
                    raise
                commits = again

    def _described_external(self) -> dict[str, TopicDescription]:
        wanted = self._external_topics()
        found = self._admin.describe_topics(wanted)
        missing = sorted(set(wanted) - set(found))
        if missing:
            raise PreflightError(
                f"Topics of application {self._config.application_id} are missing on the broker at "
                f"{self._config.bootstrap_servers}: {', '.join(missing)}.",
                remedy="create them (millrace topics create), or correct their names in the application",
            )
        return found

    def _check_topology(self, last: ApplicationStatus | None) -> None:
        """Refuses a topology that would misread or abandon the state of the one before it.

        Raises:
            TopologyError: lists the stores and topics.
        """
        if last is None or not last.topology_summary or last.topology_fingerprint == self._topology.fingerprint:
            return
        found = diff(last.topology_summary, self._topology)
        refused = found.of_kind(ChangeKind.INCOMPATIBLE) if self._discards_state else found.loses_state
        if not refused:
            return
        raise TopologyError(
            f"The topology of {self._config.application_id} has changed, and does not fit its state: "
            + "; ".join(change.text for change in found.changes if change.kind is not ChangeKind.CHANGED)
            + ".",
            remedy="name the stores and repartition topics as they were (Materialized, Grouped), reset the "
            "application, or, if what they hold is not needed, set `upgrade_mode: stateless`",
        )

    def _external_topics(self) -> list[str]:
        names = set(self._topology.external_inputs | self._topology.external_outputs)
        if self._config.errors_dead_letter_queue_topic_name is not None:
            names.add(self._config.errors_dead_letter_queue_topic_name)
        return sorted(names)

    def _internal_specs(self, external: Mapping[str, TopicDescription]) -> list[TopicSpec]:
        """Returns the repartition and changelog topics that the application needs."""
        names = sorted(self._topology.external_inputs)
        return internal_topics(
            self._topology,
            self._config,
            {name: topic.partitions for name, topic in external.items()},
            inputs=list(self._admin.settings_of_topics(names).values()),
            broker_max_message_bytes=int(self._admin.broker_settings().get("message.max.bytes", 0)),
        )

    def _internal_topics(self, specs: list[TopicSpec]) -> dict[str, TopicDescription]:
        """Creates the missing internal topics, checks the others, and returns all."""
        created = self._admin.create_missing(specs)
        if created:
            log.info("internal topics created", application=self._config.application_id, topics=created)
        existing = [spec for spec in specs if spec.name not in created]
        check_existing(self._admin, existing, self._config.application_id)
        return self._admin.describe_topics([spec.name for spec in specs])

    def _layout(self, topics: Mapping[str, TopicDescription]) -> TopologyLayout:
        return TopologyLayout(self._names, {name: topic.partitions for name, topic in topics.items()})

    def _starts(
        self,
        topics: Mapping[str, TopicDescription],
        commits: Mapping[TopicPartition, CommittedOffset],
        last: ApplicationStatus | None,
    ) -> dict[TopicPartition, Start]:
        config = self._config
        topic_partitions = self._layout(topics).inputs
        begins = begin_offsets(self._admin, topic_partitions)
        ends = end_offsets(self._admin, topic_partitions)
        committed = {
            topic_partition: StartCandidate(
                offset=commit.offset, ours=Signature.of({topic_partition: commit}) is not None
            )
            for topic_partition, commit in commits.items()
        }
        inputs = [self._inputs(part, topics, begins, ends) for part in self._topology.sub_topologies]
        last_run = None
        if last is not None:
            last_run = LastRun(
                offsets={
                    (topic, partition): offset
                    for topic, offsets in last.offsets.items()
                    for partition, offset in offsets.items()
                },
                topic_ids=last.topic_ids,
                partitions=last.partitions,
            )
        return starting_offsets(inputs, committed, last_run, application_id=config.application_id)

    def _inputs(
        self,
        part: SubTopology,
        topics: Mapping[str, TopicDescription],
        begins: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> SubTopologyInputs:
        application_id = self._config.application_id
        resets = self._names.resets(part, self._config.auto_offset_reset)
        return SubTopologyInputs(
            number=part.number,
            topics=tuple(
                InputTopic(
                    name=name,
                    topic_id=topics[name].topic_id,
                    log_starts=tuple(begins[name, partition] for partition in range(topics[name].partitions)),
                    ends=tuple(ends[name, partition] for partition in range(topics[name].partitions)),
                    reset=resets[name],
                )
                for name in part.input_topics(application_id)
            ),
            stateful=bool(part.stores),
            changelogs=tuple(self._changelogs(part, topics)),
        )

    def _changelogs(self, part: SubTopology, topics: Mapping[str, TopicDescription]) -> list[ChangelogTopic]:
        own = SubTopologyLayout.of(part, self._config.application_id).own_changelogs
        names = [name for name in own.values() if name in topics]
        topic_partitions = [(name, partition) for name in names for partition in range(topics[name].partitions)]
        begins = begin_offsets(self._admin, topic_partitions)
        ends = end_offsets(self._admin, topic_partitions)
        return [
            ChangelogTopic(
                name=name,
                partitions_with_data=tuple(
                    ends[name, partition] > begins[name, partition] for partition in range(topics[name].partitions)
                ),
            )
            for name in names
        ]

    def _sign_again(self, topic_partitions: list[TopicPartition], last: ApplicationStatus, run_id: int) -> None:
        """Signs the committed offsets again with this run, so that a late task of an older topology refuses to start.

        Fencing alone would not keep it out: with another number it has a transactional id that no task takes over
        any more, and it would process input beside the task that reads it now.
        """
        if self._config.processing_guarantee is not ProcessingGuarantee.EXACTLY_ONCE_V2 or not last.transactional_ids:
            return
        application_id = self._config.application_id
        fence_and_commit(
            self._config.bootstrap_servers,
            last.transactional_ids,
            lambda: commits_of_new_run(committed_offsets(self._admin, application_id, topic_partitions), run=run_id),
            application_id,
            settings=self._config.client_settings("producer."),
        )
        log.info("offsets signed for a changed topology", application=application_id, run=run_id)

    def _commit_new(
        self,
        topics: Mapping[str, TopicDescription],
        starts: Mapping[TopicPartition, Start],
        commits: Mapping[TopicPartition, CommittedOffset],
        run_id: int,
    ) -> None:
        """Commits, signed, the start of partitions without a committed offset, so that tasks always find one."""
        tasks = [task.inputs for task in self._layout(topics).tasks.values()]
        new = commits_of_new_partitions(tasks, starts, commits, run=run_id)
        if not new:
            return
        with TaskProducer(
            self._config.bootstrap_servers,
            transactional_id=start_transactional_id(self._config.application_id),
            settings=self._config.client_settings("producer."),
        ) as producer:
            producer.init()
            producer.begin()
            producer.commit(new, self._config.application_id)
        log.info("starting offsets committed", application=self._config.application_id, partitions=len(new))

    def _plans(self, topics: Mapping[str, TopicDescription], run_id: int) -> tuple[QueryPlan, ...]:
        application_id = self._config.application_id
        settings = self._admin.settings_of_topics(topics)
        retention_minutes = self._admin.broker_settings().get("offsets.retention.minutes")
        offsets_retention_s = float("inf") if retention_minutes is None else 60.0 * int(retention_minutes)
        plans = []
        for part in self._topology.sub_topologies:
            written = [
                full_topic_name(sink.topic, application_id, internal=sink.internal)
                for sink in part.sinks
                if sink.topic is not None
            ]
            of_part = SubTopologyLayout.of(part, application_id)
            changelogs = of_part.changelogs
            written += changelogs.values()
            if self._config.errors_dead_letter_queue_topic_name is not None:
                written.append(self._config.errors_dead_letter_queue_topic_name)
            plans.append(
                QueryPlan(
                    sub_topology=part,
                    config=self._config,
                    run_id=run_id,
                    input_partitions={name: topics[name].partitions for name in of_part.inputs},
                    topic_ids={name: topics[name].topic_id for name in of_part.inputs},
                    changelog_ids={name: topics[name].topic_id for name in of_part.own_changelogs.values()},
                    partition_counts={name: topics[name].partitions for name in written},
                    topic_limits={name: TopicLimits.of(settings[name]) for name in written},
                    largest_input_bytes=max(int(settings[name]["max.message.bytes"]) for name in of_part.inputs),
                    tombstone_retention_ms={
                        store: int(settings[name].get("delete.retention.ms", _DEFAULT_TOMBSTONE_RETENTION_MS))
                        for store, name in changelogs.items()
                    },
                    global_stores=tuple(_global_store(each, topics, settings) for each in part.global_stores),
                    offsets_retention_s=offsets_retention_s,
                )
            )
        return tuple(plans)


def _global_store(
    part: GlobalStore, topics: Mapping[str, TopicDescription], settings: Mapping[str, Mapping[str, str]]
) -> GlobalStoreSpec:
    """Returns the specification of a global store over its topic as it is now."""
    own = settings[part.topic]
    is_compacted = "compact" in own.get("cleanup.policy", "")
    return GlobalStoreSpec(
        part=part,
        topic_id=topics[part.topic].topic_id,
        partitions=topics[part.topic].partitions,
        tombstone_retention_ms=(
            int(own.get("delete.retention.ms", _DEFAULT_TOMBSTONE_RETENTION_MS)) if is_compacted else None
        ),
    )
