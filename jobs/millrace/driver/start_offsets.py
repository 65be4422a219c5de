"""The starting offset of each input partition, or the reason why none is safe, from broker and last run. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from millrace.errors import GROWN_INPUT_REMEDY, MillraceError, OffsetOutOfRangeError, OffsetsMovedError, StateError
from millrace.task.signature import MOVED_OFFSETS_REMEDY
from millrace.topology.topic_partition import TopicPartition

_SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class InputTopic:
    """A topic that a sub-topology reads.

    Args:
        name: full name.
        topic_id: the broker's UUID of it.
        log_starts: first offset of each partition, in the order of the partitions.
        ends: last stable offset of each partition, in the order of the partitions.
        reset: where a new application starts: ``earliest`` or ``latest``.
    """

    name: str
    topic_id: str
    log_starts: tuple[int, ...]
    ends: tuple[int, ...]
    reset: str = "earliest"


@dataclass(frozen=True, kw_only=True)
class ChangelogTopic:
    """A changelog topic of a store, as the broker has it.

    Args:
        name: full name.
        partitions_with_data: for each partition, whether it has records.
    """

    name: str
    partitions_with_data: tuple[bool, ...]


@dataclass(frozen=True, kw_only=True)
class SubTopologyInputs:
    """The inputs and stores of one sub-topology.

    Args:
        number: number of the sub-topology.
        topics: the topics it reads.
        stateful: whether it has stores.
        changelogs: those of its changelog topics that exist.
    """

    number: int
    topics: tuple[InputTopic, ...]
    stateful: bool = False
    changelogs: tuple[ChangelogTopic, ...] = ()

    @property
    def tasks(self) -> int:
        """Number of tasks: the number of partitions of the largest input topic."""
        return max(len(topic.ends) for topic in self.topics)


@dataclass(frozen=True, kw_only=True)
class StartCandidate:
    """A committed offset of the group.

    Args:
        offset: next offset to process.
        ours: whether its metadata carries the signature of a run of Millrace, or of its own takeover or reset.
    """

    offset: int
    ours: bool


@dataclass(frozen=True, kw_only=True)
class LastRun:
    """The previous run, as the status topic has it.

    Args:
        offsets: mirror of the committed offsets.
        topic_ids: UUID of each input topic.
        partitions: number of partitions of each input topic.
    """

    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)


class Origin(StrEnum):
    """The origin of a starting offset."""

    COMMITTED = "committed"
    RESET = "auto.offset.reset"
    NEW_PARTITION = "new partition"


@dataclass(frozen=True)
class Start:
    """The starting offset of a partition, and its origin."""

    offset: int
    origin: Origin


def starting_offsets(
    inputs: Sequence[SubTopologyInputs],
    committed: Mapping[TopicPartition, StartCandidate],
    last_run: LastRun | None,
    *,
    application_id: str,
) -> dict[TopicPartition, Start]:
    """Returns the start of each input partition.

    A committed offset of ours that is inside the log is taken. ``auto.offset.reset`` decides only for a topic that the
    application never read. A partition that a stateless sub-topology did not have in the run before starts at its first
    record, so that nothing is lost. Everything else stops the application: it never guesses.

    Args:
        inputs: what the sub-topologies read and keep, as the broker has it now.
        committed: committed offsets of the group, where there are any.
        last_run: what the status topic has, ``None`` where it has nothing.
        application_id: for the messages.

    Returns:
        An offset for every partition of every topic.

    Raises:
        StateError: a topic was deleted and created again; the number of partitions does not fit the state; or an
            offset is missing although a changelog or the last run shows that there was one.
        OffsetsMovedError: another client committed to the group.
        OffsetOutOfRangeError: records that were not processed are gone from the log.
    """
    last = last_run or LastRun()
    _check_topic_ids(inputs, last, application_id)
    _check_partition_counts(inputs, last, application_id)
    _check_signatures(inputs, committed, application_id)
    _check_ranges(inputs, committed, application_id)
    starts: dict[TopicPartition, Start] = {}
    missing: list[str] = []
    for inputs_of_one in inputs:
        for topic in inputs_of_one.topics:
            for partition in range(len(topic.ends)):
                key = (topic.name, partition)
                if key in committed:
                    starts[key] = Start(committed[key].offset, Origin.COMMITTED)
                    continue
                evidence = _evidence_of_progress(inputs_of_one, key, last)
                if evidence:
                    missing.append(f"{topic.name}-{partition} ({evidence})")
                    continue
                starts[key] = _first_start(topic, partition, last)
    _raise_if(
        missing,
        StateError,
        f"Group {application_id} has no committed offset for",
        "restore the offsets from the mirror in the status topic, or reset the application, state included",
    )
    return starts


def _first_start(topic: InputTopic, partition: int, last: LastRun) -> Start:
    if topic.name in last.partitions:
        return Start(topic.log_starts[partition], Origin.NEW_PARTITION)
    at_end = topic.reset == "latest"
    return Start((topic.ends if at_end else topic.log_starts)[partition], Origin.RESET)


def _evidence_of_progress(inputs: SubTopologyInputs, key: TopicPartition, last: LastRun) -> str:
    topic, partition = key
    if key in last.offsets:
        return f"the last run was at {last.offsets[key]}"
    if last.partitions and topic not in last.partitions:
        return ""  # the last run is known, and it did not read this topic
    for changelog in inputs.changelogs:
        if partition < len(changelog.partitions_with_data) and changelog.partitions_with_data[partition]:
            return f"its changelog {changelog.name}-{partition} has records"
    return ""


def _check_topic_ids(inputs: Sequence[SubTopologyInputs], last: LastRun, application_id: str) -> None:
    recreated = [
        f"{topic.name} (was {last.topic_ids[topic.name]}, is {topic.topic_id})"
        for topic in _topics(inputs)
        if last.topic_ids.get(topic.name, topic.topic_id) != topic.topic_id
    ]
    _raise_if(
        recreated,
        StateError,
        f"Application {application_id} was reading topics that were deleted and created again:",
        "its offsets and state belong to the old ones: reset the application",
    )


def _check_partition_counts(inputs: Sequence[SubTopologyInputs], last: LastRun, application_id: str) -> None:
    problems = []
    for each in inputs:
        for topic in each.topics:
            actual, expected = len(topic.ends), last.partitions.get(topic.name)
            if expected is not None and (actual < expected or (each.stateful and actual != expected)):
                problems.append(f"{topic.name}: expected: {expected}, actual: {actual}")
        problems += [
            f"{changelog.name}: expected: {each.tasks}, actual: {len(changelog.partitions_with_data)}"
            for changelog in each.changelogs
            if len(changelog.partitions_with_data) != each.tasks
        ]
    _raise_if(
        problems,
        StateError,
        f"The numbers of partitions do not fit the state of {application_id}, so keys would meet the wrong store;",
        f"create the topic again with the old number of partitions; or {GROWN_INPUT_REMEDY}",
    )


def _check_signatures(
    inputs: Sequence[SubTopologyInputs], committed: Mapping[TopicPartition, StartCandidate], application_id: str
) -> None:
    moved = [
        f"{topic}-{partition} at {committed[topic, partition].offset}"
        for topic, partition in _partitions(inputs)
        if (topic, partition) in committed and not committed[topic, partition].ours
    ]
    _raise_if(
        moved,
        OffsetsMovedError,
        f"Another client committed offsets of group {application_id}:",
        MOVED_OFFSETS_REMEDY,
    )


def _check_ranges(
    inputs: Sequence[SubTopologyInputs], committed: Mapping[TopicPartition, StartCandidate], application_id: str
) -> None:
    problems = []
    for topic in _topics(inputs):
        for partition, (log_start, end) in enumerate(zip(topic.log_starts, topic.ends, strict=True)):
            here = committed.get((topic.name, partition))
            if here is None:
                continue
            if here.offset < log_start:
                problems.append(f"{topic.name}-{partition}: committed {here.offset}, the log starts at {log_start}")
            elif here.offset > end:
                problems.append(f"{topic.name}-{partition}: committed {here.offset}, the log ends at {end}")
    _raise_if(
        problems,
        OffsetOutOfRangeError,
        f"Committed offsets of {application_id} are not in the log any more:",
        "the records between are lost to the application: reset its offsets explicitly to go on without them, and give "
        "the topic a longer retention",
    )


def _topics(inputs: Sequence[SubTopologyInputs]) -> Iterable[InputTopic]:
    return (topic for each in inputs for topic in each.topics)


def _partitions(inputs: Sequence[SubTopologyInputs]) -> Iterable[TopicPartition]:
    return ((topic.name, partition) for topic in _topics(inputs) for partition in range(len(topic.ends)))


def _raise_if(problems: Sequence[str], error: Callable[..., MillraceError], what: str, remedy: str) -> None:
    if problems:
        more = f" and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise error(f"{what} {', '.join(problems[:_SHOWN])}{more}.", remedy=remedy)
