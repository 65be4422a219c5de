"""Deciding a reset: everything is read and checked before anything is changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from millrace.config import ProcessingGuarantee
from millrace.driver.preparation import Preparer
from millrace.driver.start_commits import number_of_run
from millrace.errors import OperationError, PreflightError
from millrace.install.connection import Connection
from millrace.install.named_cluster import NamedCluster
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.commit_metadata import UNKNOWN_TIME, CommitMetadata
from millrace.kafka.offsets import (
    CommittedOffset,
    End,
    begin_offsets,
    committed_offsets,
    end_offsets,
    offsets_for_times,
)
from millrace.kafka.topics import TopicDescription
from millrace.operations.reset.decisions import Emptying, PartitionMove, ResetDecisions, TaskReset
from millrace.operations.reset.known import KnownApplication
from millrace.operations.reset.options import ResetOptions
from millrace.operations.reset.resources import resources_of
from millrace.operations.reset.targets import Move, PartitionLog, ShiftBy, ToTime, clamped, moves
from millrace.task.signature import Signature
from millrace.topology.layout import SubTopologyLayout, start_transactional_id
from millrace.topology.topic_partition import TopicPartition


def decide(
    known: KnownApplication,
    options: ResetOptions,
    *,
    cluster: NamedCluster | None = None,
    savepoints: Collection[str] = (),
) -> ResetDecisions:
    """Returns the plan of a reset of an application that does not run.

    Args:
        known: the application.
        options: what was asked for.
        cluster: of an application without a specification here.
        savepoints: those to delete.

    Raises:
        OperationError: something that was asked for cannot be done; nothing is done then.
        PreflightError: a topic is missing.
    """
    return _Planner(known, options).decide(cluster, savepoints)


@dataclass(frozen=True)
class _Planner:
    known: KnownApplication
    options: ResetOptions

    @property
    def admin(self) -> KafkaAdmin:
        return Connection.of(self.known.config).administrator()

    def decide(self, cluster: NamedCluster | None, savepoints: Collection[str]) -> ResetDecisions:
        known, admin = self.known, self.admin
        current, everything = known.current, known.everything
        wanted = self._named(self.options.input_topics, current.inputs, "an input topic")
        chosen = self._named(self.options.internal_topics, everything.internal, "an internal topic")
        topics = admin.describe_topics(sorted(everything.internal | everything.inputs | everything.outputs))
        if missing := sorted(current.inputs - set(topics)):
            raise PreflightError(
                f"Input topics of {known.application_id} do not exist: {', '.join(missing)}.",
                remedy="create them (millrace topics create), or correct their names in the application",
            )
        deletes = sorted((chosen & set(topics)) - self._kept_repartition_topics(topics))
        self._refuse_what_others_use(deletes)
        keeps = sorted((everything.internal & set(topics)) - set(deletes))
        self._refuse_what_does_not_fit(keeps, topics)
        commits = committed_offsets(admin, known.application_id, None)
        tasks = self._tasks(topics, commits, wanted=wanted, keeps=keeps)
        epoch = known.status.driver_epoch if known.status else 0
        return ResetDecisions(
            application_id=known.application_id,
            cluster=cluster,
            state_dir=str(known.config.state_dir),
            run=number_of_run(commits, epoch=epoch + 1),
            transactional_ids=tuple(self._transactional_ids(topics)),
            tasks=tasks,
            deletes=tuple(deletes),
            keeps=tuple(keeps),
            empties=tuple(self._empties()),
            savepoints=tuple(savepoints),
            stale_inputs=tuple(sorted({topic for topic, _ in commits} - current.inputs - everything.internal)),
            force=self.options.force,
            forgets_topology=self.options.discards_topology,
        )

    def _kept_repartition_topics(self, topics: Mapping[str, TopicDescription]) -> frozenset[str]:
        """Repartition topics that are kept with the unprocessed records in them."""
        known = self.known
        if not self.options.keeps_waiting or known.topology is None:
            return frozenset()
        wanted = Preparer(known.config, known.topology).internal_topics()
        return frozenset(
            spec.name
            for spec in wanted
            if spec.name in known.current.repartition_topics
            and spec.name in topics
            and topics[spec.name].partitions == spec.partitions
        )

    def _named(self, names: frozenset[str], known: frozenset[str], what: str) -> frozenset[str]:
        if unknown := sorted(names - known):
            raise OperationError(
                f"{', '.join(unknown)} is not {what} of {self.known.application_id}.",
                remedy=f"name some of these: {', '.join(sorted(known)) or 'there is none'}",
            )
        return names or known

    def _refuse_what_others_use(self, topics: Collection[str]) -> None:
        """Another application may read our changelog, or own a topic of the same name."""
        for application_id, status in sorted(self.known.statuses.items()):
            if application_id == self.known.application_id:
                continue
            theirs = resources_of(application_id, None, status)
            used = theirs.inputs | theirs.outputs | theirs.global_topics | theirs.internal
            if shared := sorted(used & set(topics)):
                raise OperationError(
                    f"Application {application_id} uses topics that the reset of {self.known.application_id} would "
                    f"delete: {', '.join(shared)}.",
                    remedy="name the others with --internal-topics; of what is kept the content is kept",
                )

    def _refuse_what_does_not_fit(self, keeps: Collection[str], topics: Mapping[str, TopicDescription]) -> None:
        """An internal topic that is kept must have as many partitions as the next start will ask for."""
        if self.known.topology is None or not keeps:
            return
        preparer = Preparer(self.known.config, self.known.topology)
        needed = {spec.name: spec.partitions for spec in preparer.internal_topics()}
        for name in keeps:
            if needed.get(name, topics[name].partitions) != topics[name].partitions:
                raise OperationError(
                    f"{name} has {topics[name].partitions} partitions, and the next start needs {needed[name]}, so "
                    "that it cannot be kept.",
                    remedy="let it be deleted: name it with --internal-topics, or leave that option out",
                )

    def _tasks(
        self,
        topics: Mapping[str, TopicDescription],
        commits: Mapping[TopicPartition, CommittedOffset],
        *,
        wanted: frozenset[str],
        keeps: Collection[str],
    ) -> tuple[TaskReset, ...]:
        parts = [part.within(topics) for part in self._sub_topologies()]
        partitions = {name: topic.partitions for name, topic in topics.items()}
        kept_inputs = {topic for part in parts for topic in part.inputs} - wanted
        kept_inputs &= self.known.current.inputs | set(keeps)
        reset = self._moves(
            [topic_partition for name in sorted(wanted) for topic_partition in topics[name].topic_partitions], commits
        )
        kept = self._kept(
            [topic_partition for name in sorted(kept_inputs) for topic_partition in topics[name].topic_partitions],
            commits,
            keeps,
        )
        tasks = []
        for part in parts:
            changelogs = self._kept_changelogs(part, topics, keeps)
            for task in part.tasks(partitions):
                number = task.partition
                topic_partitions = [
                    topic_partition
                    for topic_partition in task.inputs
                    if topic_partition[0] in wanted or topic_partition[0] in kept_inputs
                ]
                found = {
                    topic_partition: reset.get(topic_partition) or kept.get(topic_partition)
                    for topic_partition in topic_partitions
                }
                before = Signature.of(
                    {
                        topic_partition: commits[topic_partition]
                        for topic_partition in topic_partitions
                        if topic_partition in commits
                    }
                )
                tasks.append(
                    TaskReset(
                        name=task.name,
                        moves=tuple(
                            _partition_move(
                                topic_partition,
                                move,
                                commits.get(topic_partition),
                                is_kept=topic_partition not in reset,
                            )
                            for topic_partition, move in found.items()
                            if move is not None
                        ),
                        changelogs={
                            # What was committed last, where that is known: behind it there may be aborted records.
                            store: before.changelogs.get(store, end) if before else end
                            for store, end in changelogs.get(number, {}).items()
                        },
                        stream_times={
                            store: time
                            for store, time in (before.stream_times.items() if before else ())
                            if store in changelogs.get(number, {})
                        },
                    )
                )
        return tuple(task for task in tasks if task.moves)

    def _sub_topologies(self) -> tuple[SubTopologyLayout, ...]:
        current = self.known.current
        covered = {topic for part in current.sub_topologies for topic in part.inputs}
        if loose := current.inputs - covered:
            # Nothing is known of the tasks: after a reset no topology is on record.
            unknown = SubTopologyLayout(
                application_id=self.known.application_id,
                number=len(current.sub_topologies),
                inputs=tuple(sorted(loose)),
            )
            return (*current.sub_topologies, unknown)
        return current.sub_topologies

    def _moves(
        self, topic_partitions: list[TopicPartition], commits: Mapping[TopicPartition, CommittedOffset]
    ) -> dict[TopicPartition, Move]:
        target, admin = self.options.to, self.admin
        begins, ends = begin_offsets(admin, topic_partitions), end_offsets(admin, topic_partitions)
        times = (
            offsets_for_times(admin, dict.fromkeys(topic_partitions, target.time_ms))
            if isinstance(target, ToTime)
            else {}
        )
        return moves(
            target,
            {
                topic_partition: PartitionLog(
                    begin=begins[topic_partition],
                    end=ends[topic_partition],
                    committed=commits[topic_partition].offset if topic_partition in commits else None,
                    at_time=times.get(topic_partition),
                )
                for topic_partition in topic_partitions
            },
        )

    def _kept(
        self,
        topic_partitions: list[TopicPartition],
        commits: Mapping[TopicPartition, CommittedOffset],
        keeps: Collection[str],
    ) -> dict[TopicPartition, Move]:
        """Input topics that are not reset, and repartition topics that are kept, stay at what is committed."""
        begins = begin_offsets(
            self.admin,
            [
                topic_partition
                for topic_partition in topic_partitions
                if topic_partition not in commits and topic_partition[0] in keeps
            ],
        )
        committed = {
            topic_partition: commits[topic_partition].offset
            for topic_partition in topic_partitions
            if topic_partition in commits
        }
        return moves(ShiftBy(0), {
            topic_partition: PartitionLog(begin=offset, end=offset, committed=offset)
            for topic_partition, offset in {**begins, **committed}.items()
        })  # fmt: skip

    def _kept_changelogs(
        self, part: SubTopologyLayout, topics: Mapping[str, TopicDescription], keeps: Collection[str]
    ) -> dict[int, dict[str, int]]:
        """By partition, the end of each changelog of the sub-topology that is kept."""
        tasks = part.count({name: topic.partitions for name, topic in topics.items()})
        kept = {store: topic for store, topic in part.own_changelogs.items() if topic in keeps}
        for topic in kept.values():
            if topics[topic].partitions != tasks:
                raise OperationError(
                    f"{topic} has {topics[topic].partitions} partitions for {tasks} tasks, so that it cannot be kept.",
                    remedy="let it be deleted: name it with --internal-topics, or leave that option out",
                )
        ends = end_offsets(
            self.admin,
            [topic_partition for topic in kept.values() for topic_partition in topics[topic].topic_partitions],
        )
        return {
            number: {store: ends[topic, number] for store, topic in kept.items()} for number in range(tasks) if kept
        }

    def _transactional_ids(self, topics: Mapping[str, TopicDescription]) -> Iterable[str]:
        """Every id that may have written for the application; the ids of its tasks where no record has them."""
        application_id, status = self.known.application_id, self.known.status
        ids = list(status.transactional_ids) if status else []
        if not ids and self.known.config.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2:
            partitions = {name: topic.partitions for name, topic in topics.items()}
            for part in self._sub_topologies():
                ids += [task.transactional_id for task in part.within(topics).tasks(partitions)]
        return sorted({*ids, start_transactional_id(application_id)})

    def _empties(self) -> Iterable[Emptying]:
        everything, admin = self.known.everything, self.admin
        names = sorted(self._named(self.options.output_topics, everything.outputs, "an output topic")
                       if self.options.output_topics else ())  # fmt: skip
        if both := sorted(set(names) & (everything.inputs | everything.global_topics)):
            raise OperationError(
                f"{', '.join(both)} is an input of {self.known.application_id} as well, so that it is not emptied.",
                remedy="reset it to its end with --to-latest, or delete its records with Kafka's own tools",
            )
        if self.options.empties_dead_letters:
            dead_letter_topic = self.known.config.errors_dead_letter_queue_topic_name
            if dead_letter_topic is None:
                raise OperationError(
                    f"{self.known.application_id} has no dead-letter topic.",
                    remedy="set errors.dead.letter.queue.topic.name, or leave --dead-letter-topic out",
                )
            names.append(dead_letter_topic)
        topics = admin.describe_topics(names)
        for name in topics:
            if "delete" not in (policy := admin.topic_settings(name)["cleanup.policy"]):
                raise OperationError(
                    f"{name} has cleanup.policy={policy}, so that the broker deletes no records of it.",
                    remedy="leave it as it is, or add delete to its cleanup.policy for the time of the reset",
                )
        topic_partitions = [topic_partition for topic in topics.values() for topic_partition in topic.topic_partitions]
        begins, ends = begin_offsets(admin, topic_partitions), end_offsets(admin, topic_partitions, End.HIGH_WATERMARK)
        for topic_partition in topic_partitions:
            if begins[topic_partition] < ends[topic_partition]:
                yield Emptying(topic=topic_partition[0], partition=topic_partition[1], end=ends[topic_partition])


def _partition_move(
    topic_partition: TopicPartition, move: Move, commit: CommittedOffset | None, *, is_kept: bool
) -> PartitionMove:
    metadata = CommitMetadata.decode(commit.metadata) if commit is not None and is_kept else None
    return PartitionMove(
        topic=topic_partition[0],
        partition=topic_partition[1],
        before=move.before,
        asked=move.asked,
        after=move.after,
        partition_time=UNKNOWN_TIME if metadata is None else metadata.partition_time,
        is_kept=is_kept,
    )


def clamped_again(admin: KafkaAdmin, decided: Collection[PartitionMove]) -> dict[TopicPartition, int]:
    """Returns the offsets to commit: as decided, but inside the logs as they are by now."""
    topic_partitions = [move.topic_partition for move in decided if not move.is_kept]
    begins, ends = begin_offsets(admin, topic_partitions), end_offsets(admin, topic_partitions)
    return {
        move.topic_partition: move.after
        if move.is_kept
        else clamped(move.after, begin=begins[move.topic_partition], end=ends[move.topic_partition])
        for move in decided
    }
