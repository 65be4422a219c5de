"""Sending dead-letter records back to where they were read, each exactly once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from millrace.errors import OperationError
from millrace.install.application import Application
from millrace.install.connection import Connection
from millrace.install.files import now_text
from millrace.kafka.murmur2 import partition_for
from millrace.kafka.offsets import begin_offsets
from millrace.kafka.producer import TaskProducer
from millrace.operations import OperationPlan, Step, StepContext, operation, perform
from millrace.operations.dead_letters.markers import (
    MARKER_TOPIC,
    Marker,
    Position,
    encode_markers,
    ensure_marker_topic,
    read_markers,
    replay_transactional_id,
    times_of_now,
)
from millrace.operations.dead_letters.originals import with_originals
from millrace.operations.dead_letters.reading import dead_letter_records
from millrace.operations.dead_letters.record import DeadLetterRecord
from millrace.operations.dead_letters.selection import Selection, as_ranges
from millrace.operations.dead_letters.topic import DeadLetterTopic, dead_letter_topic_of
from millrace.operations.outcome import Outcome
from millrace.operations.reset.known import KnownApplication, known_application
from millrace.task.crash_points import crash_here
from millrace.topology.parts import full_topic_name
from millrace.topology.topic_partition import TopicPartition

KIND = "replay"
_BATCH_RECORDS = 500
_BATCH_BYTES = 4 * 1024 * 1024


class ReplayDecisions(BaseModel):
    """The decisions of a replay.

    ``letters`` has ranges of first and last offset by partition, ``partitions`` the number of partitions of each topic
    that records go back to, ``from_log`` those whose records the dead-letter records do not have as they were.
    """

    model_config = ConfigDict(frozen=True)

    topic: str
    topic_id: str
    letters: dict[int, list[tuple[int, int]]]
    counts: dict[str, int]
    partitions: dict[str, int]
    left_out: dict[str, int]
    from_log: list[str]
    to_source_partition: bool
    force: bool

    def has(self, record: DeadLetterRecord) -> bool:
        """Returns whether a dead-letter record is to be replayed."""
        return any(first <= record.offset <= last for first, last in self.letters.get(record.partition, ()))

    def lacks_original(self, record: DeadLetterRecord) -> bool:
        """Returns whether the record has to be read from its log."""
        return record.topic in self.from_log or not record.has_own_timestamp

    @property
    def all_positions(self) -> set[Position]:
        """The positions of all dead-letter records to replay."""
        return {
            (partition, offset)
            for partition, ranges in self.letters.items()
            for first, last in ranges
            for offset in range(first, last + 1)
        }

    def partition(self, record: DeadLetterRecord) -> int:
        """Returns the partition of its record: by murmur2 of the key.

        Without a key, or if asked for, the one that it was read from.
        """
        count = self.partitions[record.topic or ""]
        if record.key is not None and not self.to_source_partition:
            return partition_for(record.key, count)
        return record.source_partition if record.source_partition < count else record.source_offset % count


def replay_dead_letter_records(
    application: Application,
    *,
    selection: Selection | None = None,
    to_source_partition: bool = False,
    force: bool = False,
    dry_run: bool = False,
    reason: str = "a replay was asked for",
    progress: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Sends dead-letter records back to the topics they were read from: bytes, key, headers and timestamp.

    Each goes exactly once: a transaction has the records and the marks that they were replayed. A dead-letter record
    that has a mark is left out, or refused where it was named, unless forced. The application may run meanwhile.

    Args:
        application: which.
        selection: which dead-letter records; by default all that have not been replayed.
        to_source_partition: back to the partition where it was read, whatever its key; by default murmur2 of the key
            decides, as for every record that Kafka's own producers send, and only those without a key go back there.
        force: also those that were replayed before.
        dry_run: only say what would go.
        reason: for the journal.
        progress: takes lines that say how far it is.

    Raises:
        OperationError: there is nothing to replay, or a dead-letter record that was named cannot be, or was already.
        MillraceError: a step failed; the replay can be resumed.
    """
    box = dead_letter_topic_of(application)
    known = known_application(application)
    decided = _decide(box, known, selection or Selection(), to_source_partition=to_source_partition, force=force)
    plan = OperationPlan(
        operation=KIND, application=application.name, reason=reason, decisions=decided.model_dump(mode="json")
    )
    return perform(application.home, plan, dry_run=dry_run, progress=progress)


@operation(KIND)
def steps(plan: OperationPlan) -> Sequence[Step]:
    """Returns the steps of a replay."""
    decided = ReplayDecisions.model_validate(plan.decisions)
    what = ", ".join(f"{count} to {topic}" for topic, count in sorted(decided.counts.items()))
    left = "; ".join(f"{count} stay: {why}" for why, count in sorted(decided.left_out.items()))
    where = "the partition they came from" if decided.to_source_partition else "the partition of their key"
    return [
        Step(
            name="send",
            text=f"Send the records in dead-letter topic {decided.topic} back to {where}, each in a transaction with "
            f"the mark that it was replayed: {what}; dead-letter records {_ranges_text(decided)}"
            + (f" ({left})" if left else "")
            + ".",
            run=lambda context: _send(context, decided),
        ),
        Step(
            name="check",
            text="Check that each of them is marked.",
            run=lambda context: _check(context, decided),
        ),
    ]


def _ranges_text(decided: ReplayDecisions) -> str:
    return ", ".join(
        f"{partition}:{first}" + (f"-{last}" if last > first else "")
        for partition, ranges in sorted(decided.letters.items())
        for first, last in ranges
    )


@dataclass(frozen=True)
class _Judge:
    """Says why a dead-letter record cannot go back; an empty text where it can."""

    known: KnownApplication
    begins: dict[TopicPartition, int] = field(default_factory=dict)

    @cached_property
    def framed(self) -> frozenset[str]:
        """Topics whose records go through DataFrame functions, so that a task never sees their original bytes."""
        topology = self.known.topology
        return frozenset(
            full_topic_name(topic, self.known.application_id, internal=source.internal)
            for part in (topology.sub_topologies if topology else ())
            for source in part.sources
            if source.frame_functions
            for topic in source.topics
        )

    def objection(self, record: DeadLetterRecord) -> str:
        everything = self.known.everything
        if record.topic is None:
            return "it does not say where its record was read"
        if record.topic not in everything.inputs | everything.repartition_topics | everything.global_topics:
            return f"{record.topic} is no input of {self.known.application_id}"
        is_whole = record.has_own_timestamp and record.topic not in self.framed
        if not is_whole and record.source_offset < self._begin((record.topic, record.source_partition)):
            return "the dead-letter record does not have its record wholly, and that has left the log it was read from"
        return ""

    def _begin(self, topic_partition: TopicPartition) -> int:
        if topic_partition not in self.begins:
            admin = Connection.of(self.known.config).administrator()
            self.begins.update(begin_offsets(admin, [topic_partition]))
        return self.begins[topic_partition]


def _decide(
    box: DeadLetterTopic, known: KnownApplication, selection: Selection, *, to_source_partition: bool, force: bool
) -> ReplayDecisions:
    judge = _Judge(known)
    chosen: defaultdict[int, list[int]] = defaultdict(list)
    counts: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    sources: dict[str, int] = {}
    for each in box.select(selection):
        record = each.record
        objection = judge.objection(record)
        if not objection and each.replayed is not None and not force:
            objection = "replayed before (--force sends them again)"
        if objection:
            if selection.positions:
                raise OperationError(
                    f"Dead-letter record {record.name} of {box.topic.name} is not sent back: {objection}.",
                    remedy="send it again with --force" if each.replayed else "write its record to the input yourself",
                )
            left_out[objection] += 1
            continue
        assert record.topic is not None
        chosen[record.partition].append(record.offset)
        counts[record.topic] += 1
        sources[record.topic] = max(sources.get(record.topic, 0), record.source_partition)
    if not chosen:
        why = "; ".join(f"{count}: {reason}" for reason, count in sorted(left_out.items()))
        raise OperationError(
            f"No dead-letter record in {box.topic.name} is to be sent back" + (f" ({why})." if why else "."),
            remedy="see them with `millrace dlq list`",
        )
    partitions = {name: box.connection.administrator().describe_topic(name).partitions for name in sorted(sources)}
    if to_source_partition and (gone := sorted(name for name in sources if sources[name] >= partitions[name])):
        raise OperationError(
            f"{', '.join(gone)} has fewer partitions than when the dead-letter records were written.",
            remedy="leave --to-source-partition out: the keys decide then",
        )
    return ReplayDecisions(
        topic=box.topic.name,
        topic_id=box.topic.topic_id,
        letters={partition: as_ranges(sorted(offsets)) for partition, offsets in sorted(chosen.items())},
        counts=dict(counts),
        partitions=partitions,
        left_out=dict(left_out),
        from_log=sorted(judge.framed & set(sources)),
        to_source_partition=to_source_partition,
        force=force,
    )


def _send(context: StepContext, decided: ReplayDecisions) -> Mapping[str, Any]:
    box = _same_box(context, decided)
    admin = box.connection.administrator()
    ensure_marker_topic(admin)
    with TaskProducer(
        box.connection.bootstrap_servers,
        # One for the topic, not the application: two replays of the same dead-letter records must fence each other.
        transactional_id=replay_transactional_id(decided.topic),
        settings=box.connection.producer,
        topic_limits=admin.topic_limits([*decided.partitions, MARKER_TOPIC]),
    ) as producer:
        # Ends what a killed replay has left open, so that the marks are final.
        producer.init()
        done = _done(box, context, decided)
        sent: Counter[str] = Counter()
        starts = {(decided.topic, number): ranges[0][0] for number, ranges in decided.letters.items()}
        selected = (
            record
            for record in dead_letter_records(box.connection, {**starts, **_later_begins(box, starts)})
            if decided.has(record) and record.position not in done
        )
        whole = with_originals(box.connection, selected, where=decided.lacks_original)
        for batch in _batches(whole):
            _send_batch(producer, batch, decided, Marker(operation=context.id, at=now_text()))
            sent.update(record.topic or "" for record in batch)
            context.progress(f"{sum(sent.values())} records sent back")
    return {"sent": dict(sent)}


def _same_box(context: StepContext, decided: ReplayDecisions) -> DeadLetterTopic:
    box = dead_letter_topic_of(context.application)
    if box.topic.topic_id != decided.topic_id:
        raise OperationError(
            f"{decided.topic} was deleted and created again: the dead-letter records that were to go are lost.",
            remedy="abandon this replay (`millrace operations abandon`)",
        )
    return box


def _later_begins(box: DeadLetterTopic, starts: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
    return {
        topic_partition: begin
        for topic_partition, begin in box.begins().items()
        if topic_partition in starts and begin > starts[topic_partition]
    }


def _done(box: DeadLetterTopic, context: StepContext, decided: ReplayDecisions) -> set[Position]:
    """What this operation has sent before it was killed; unless forced also what any other has."""
    markers = read_markers(box.connection, decided.topic_id, settled=True)
    return {position for position, marker in markers.items() if not decided.force or marker.operation == context.id}


def _batches(selected: Iterator[DeadLetterRecord]) -> Iterator[list[DeadLetterRecord]]:
    batch: list[DeadLetterRecord] = []
    size = 0
    for record in selected:
        batch.append(record)
        size += len(record.value or b"") + len(record.key or b"")
        if len(batch) >= _BATCH_RECORDS or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _send_batch(
    producer: TaskProducer, batch: Sequence[DeadLetterRecord], decided: ReplayDecisions, marker: Marker
) -> None:
    by_topic: defaultdict[str, list[DeadLetterRecord]] = defaultdict(list)
    for record in batch:
        by_topic[record.topic or ""].append(record)
    producer.begin()
    for topic, group in by_topic.items():
        producer.send(
            topic,
            [record.key for record in group],
            [record.value for record in group],
            np.array([record.timestamp for record in group], dtype=np.int64),
            partitions=np.array([decided.partition(record) for record in group], dtype=np.int32),
            headers=[record.headers for record in group],
        )
    marks = encode_markers(decided.topic_id, [record.position for record in batch], marker)
    producer.send(MARKER_TOPIC, list(marks), list(marks.values()), times_of_now(len(marks)), partition=0)
    crash_here(f"{KIND}-batch-sent")
    producer.commit({}, "")
    crash_here(f"{KIND}-batch-committed")


def _check(context: StepContext, decided: ReplayDecisions) -> Mapping[str, Any]:
    box = _same_box(context, decided)
    markers = read_markers(box.connection, decided.topic_id, settled=True)
    begins = {partition: begin for (_, partition), begin in box.begins().items()}
    unmarked = {position for position in decided.all_positions if position not in markers}
    gone = {(partition, offset) for partition, offset in unmarked if offset < begins[partition]}
    if missing := sorted(unmarked - gone):
        raise OperationError(
            f"{len(missing)} dead-letter records are not marked as replayed, the first at "
            f"{missing[0][0]}:{missing[0][1]}.",
            remedy="abandon this replay and replay again: what is marked is left out",
        )
    return {
        "checks": [f"{len(decided.all_positions) - len(gone)} dead-letter records are marked as replayed"],
        "expired": len(gone),
    }
