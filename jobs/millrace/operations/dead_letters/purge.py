"""Deleting dead-letter records up to an offset or a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from millrace.errors import OperationError
from millrace.install.application import Application
from millrace.kafka.offsets import End, begin_offsets, end_offsets, offsets_for_times
from millrace.kafka.producer import TaskProducer
from millrace.operations import OperationPlan, Step, StepContext, operation, perform
from millrace.operations.dead_letters.markers import (
    MARKER_TOPIC,
    encode_markers,
    read_markers,
    replay_transactional_id,
    times_of_now,
)
from millrace.operations.dead_letters.selection import Selection
from millrace.operations.dead_letters.topic import DeadLetterTopic, dead_letter_topic_of
from millrace.operations.outcome import Outcome
from millrace.topology.topic_partition import TopicPartition

KIND = "purge"


class PurgeDecisions(BaseModel):
    """What a purge has decided: by partition, the offset before which dead-letter records are deleted."""

    model_config = ConfigDict(frozen=True)

    topic: str
    topic_id: str
    before: dict[int, int]
    letters: int
    never_replayed: int

    @property
    def places(self) -> dict[TopicPartition, int]:
        """The same by topic and partition."""
        return {(self.topic, partition): offset for partition, offset in self.before.items()}


def purge_dead_letter_records(
    application: Application,
    *,
    before_offset: tuple[int, int] | None = None,
    before_ms: int | None = None,
    dry_run: bool = False,
    reason: str = "a purge was asked for",
    progress: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Delete dead-letter records for good. With neither limit all that are there now.

    Args:
        application: which.
        before_offset: partition, and the first offset of it that stays; other partitions stay as they are.
        before_ms: those before the first dead-letter record of this time or later, milliseconds since 1970.
        dry_run: only say what would be deleted.
        reason: for the journal.
        progress: takes lines that say how far it is.

    Raises:
        OperationError: nothing is there to delete, or the topic does not allow it.
    """
    box = dead_letter_topic_of(application)
    decided = _decide(box, before_offset=before_offset, before_ms=before_ms)
    plan = OperationPlan(
        operation=KIND, application=application.name, reason=reason, decisions=decided.model_dump(mode="json")
    )
    return perform(application.home, plan, dry_run=dry_run, progress=progress)


@operation(KIND)
def steps(plan: OperationPlan) -> Sequence[Step]:
    """The steps of a purge."""
    decided = PurgeDecisions.model_validate(plan.decisions)
    limits = ", ".join(f"{partition}:{offset}" for partition, offset in sorted(decided.before.items()))
    return [
        Step(
            name="delete",
            text=f"Delete {decided.letters} dead-letter records of {decided.topic}, {decided.never_replayed} of which "
            f"were never replayed: all before {limits}.",
            run=lambda context: _delete(context, decided),
        ),
        Step(
            name="forget",
            text="Forget which of them were replayed.",
            run=lambda context: _discard(context, decided),
        ),
        Step(name="check", text="Check that they are gone, and count what is left.", run=lambda c: _check(c, decided)),
    ]


def _decide(box: DeadLetterTopic, *, before_offset: tuple[int, int] | None, before_ms: int | None) -> PurgeDecisions:
    admin = box.connection.administrator()
    if "delete" not in (policy := admin.topic_settings(box.topic.name)["cleanup.policy"]):
        raise OperationError(
            f"{box.topic.name} has cleanup.policy={policy}, so that the broker deletes no records of it.",
            remedy="add delete to its cleanup.policy",
        )
    begins = box.begins()
    limits: dict[TopicPartition, int] = end_offsets(admin, list(begins), End.LAST_STABLE)
    if before_ms is not None:
        found = offsets_for_times(admin, dict.fromkeys(begins, before_ms))
        limits = {
            place: min(end, limits[place])
            for place, at in found.items()
            for end in [limits[place] if at is None else at]
        }
    if before_offset is not None:
        place, offset = (box.topic.name, before_offset[0]), before_offset[1]
        if place not in begins:
            raise OperationError(
                f"{box.topic.name} has no partition {place[1]}.", remedy=f"it has {box.topic.partitions} partitions"
            )
        limits = {place: min(offset, limits[place])}
    before = {place[1]: limit for place, limit in limits.items() if begins[place] < limit}
    known = [each for each in box.select(Selection()) if each.record.offset < before.get(each.record.partition, 0)]
    if not before:
        raise OperationError(
            f"No dead-letter record of {box.topic.name} lies before that.", remedy="see `millrace dlq list`"
        )
    return PurgeDecisions(
        topic=box.topic.name,
        topic_id=box.topic.topic_id,
        before=before,
        letters=len(known),
        never_replayed=sum(each.replayed is None for each in known),
    )


def _same_box(context: StepContext, decided: PurgeDecisions) -> DeadLetterTopic:
    box = dead_letter_topic_of(context.application)
    if box.topic.topic_id != decided.topic_id:
        raise OperationError(
            f"{decided.topic} was deleted and created again: its dead-letter records are gone.",
            remedy="abandon this purge (`millrace operations abandon`)",
        )
    return box


def _delete(context: StepContext, decided: PurgeDecisions) -> Mapping[str, Any]:
    box = _same_box(context, decided)
    begins = box.begins()
    left = {place: offset for place, offset in decided.places.items() if begins[place] < offset}
    box.connection.administrator().delete_records(left)
    return {"partitions": len(left)}


def _discard(context: StepContext, decided: PurgeDecisions) -> Mapping[str, Any]:
    box = _same_box(context, decided)
    with TaskProducer(
        box.connection.bootstrap_servers,
        transactional_id=replay_transactional_id(decided.topic),
        settings=box.connection.producer,
    ) as producer:
        producer.init()
        gone = [
            (partition, offset)
            for partition, offset in read_markers(box.connection, decided.topic_id, settled=True)
            if offset < decided.before.get(partition, 0)
        ]
        if gone:
            marks = encode_markers(decided.topic_id, gone, None)
            producer.begin()
            producer.send(MARKER_TOPIC, list(marks), list(marks.values()), times_of_now(len(marks)), partition=0)
            producer.commit({}, "")
    return {"markers": len(gone)}


def _check(context: StepContext, decided: PurgeDecisions) -> Mapping[str, Any]:
    box = _same_box(context, decided)
    begins = begin_offsets(box.connection.administrator(), list(decided.places))
    if kept := [
        f"{partition}" for (topic, partition), limit in decided.places.items() if begins[topic, partition] < limit
    ]:
        raise OperationError(
            f"Partitions {', '.join(kept)} of {decided.topic} still have what was to be deleted.",
            remedy="resume the purge (`millrace operations resume`)",
        )
    left = sum(1 for _ in box.select(Selection()))
    return {"checks": [f"{left} dead-letter records are left in {decided.topic}"], "left": left}
