"""Comparing what a canary writes with what the application writes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from millrace.errors import OperationError
from millrace.install.application import Application
from millrace.install.connection import Connection
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import End, committed_offsets, end_offsets
from millrace.operations.dead_letters.reading import records
from millrace.operations.reset.known import known_application
from millrace.operations.savepoints.location import launched_repository
from millrace.supervise.canary.clone import canary_of, clone_of
from millrace.topology.topic_partition import TopicPartition

_POLL_S = 0.5
_SHOWN_BYTES = 80


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A difference: what one of the two has written and the other has not.

    Args:
        topic: output topic of the application.
        key: as bytes; of a windowed key the window is in it.
        original: what the application wrote: the last value of the key, or, where every record counts, the value.
        canary: the same of the canary; ``None`` is a tombstone or nothing.
        text: the difference in words.
    """

    topic: str
    key: bytes | None
    original: bytes | None
    canary: bytes | None
    text: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The result of a comparison.

    Args:
        keys: keys that were compared.
        records: records of the application and of the canary that were read.
        differences: all of them.
        at_rest: whether both had processed the same input; else what one of them has not come to yet may differ.
    """

    keys: int
    records: tuple[int, int]
    differences: tuple[Difference, ...]
    at_rest: bool

    @property
    def agrees(self) -> bool:
        """Whether nothing differs."""
        return not self.differences


def compare(
    application: Application,
    *,
    every_record: bool = False,
    wait_s: float = 60.0,
    progress: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Compares all that an application and its canary have written since both began to be the same.

    By default the last value of each key of each topic: how many updates come before it depends on batches. The order
    of records does not matter in either case. It waits until both have processed the same input, and all of it.

    Args:
        application: the application, not the canary.
        every_record: compare how often each key came with each value: for outputs that are no tables.
        wait_s: longest time to wait until both have processed the same input, seconds.
        progress: takes lines that say how far it is.

    Raises:
        OperationError: it has no canary, or the canary writes to no topic.
        BrokerUnavailableError: the topics cannot be read.
    """
    canary, clone = canary_of(application), clone_of(application.name)
    if not canary.outputs:
        raise OperationError(
            f"The canary of {application} writes to no topic.", remedy="compare its stores with `millrace query`"
        )
    known = known_application(application)
    connection = Connection.of(known.config)
    admin = connection.administrator()
    repository = launched_repository(application)
    point = repository.read(canary.savepoint).point
    assert point is not None, "the canary was restored from it"
    cloned = known_application(Application(application.home, clone))
    read = {
        name: (each.current.inputs, each.current.repartition_topics)
        for name, each in ((application.name, known), (clone, cloned))
    }
    at_rest = _wait_until_level(admin, read, wait_s=wait_s, progress=progress)
    originals = _starts(admin, canary.outputs, point.output_ends)
    copies = _starts(admin, canary.outputs.values(), {})
    names = {copy: name for name, copy in canary.outputs.items()}
    progress("reading what both have written")
    ours, read_ours = _read(connection, originals, {}, every_record=every_record)
    theirs, read_theirs = _read(connection, copies, names, every_record=every_record)
    return Comparison(
        keys=len({(topic, key) for topic, key, *_ in (*ours, *theirs)}),
        records=(read_ours, read_theirs),
        differences=tuple(_differences(ours, theirs, every_record=every_record)),
        at_rest=at_rest,
    )


def _wait_until_level(
    admin: KafkaAdmin,
    read: Mapping[str, tuple[Iterable[str], Iterable[str]]],
    *,
    wait_s: float,
    progress: Callable[[str], None],
) -> bool:
    """Whether both come to the end of all that they read: inputs, and what waits between their own tasks."""
    deadline = time.monotonic() + wait_s
    while True:
        behind = {name: _lag(admin, name, *topics) for name, topics in read.items()}
        if not any(behind.values()):
            return True
        if time.monotonic() >= deadline:
            return False
        progress(", ".join(f"{name} is {lag} records behind" for name, lag in behind.items()))
        time.sleep(_POLL_S)


def _lag(admin: KafkaAdmin, group: str, inputs: Iterable[str], internal: Iterable[str]) -> int:
    topics = admin.describe_topics(sorted({*inputs, *internal}))
    topic_partitions = {name: list(topic.topic_partitions) for name, topic in topics.items()}
    # First the commits: only then is everything that they sent on between the tasks inside the ends. A commit may be
    # seen before its marker is written, so what only the application itself writes is read to the high watermark.
    commits = committed_offsets(
        admin, group, [topic_partition for each in topic_partitions.values() for topic_partition in each]
    )
    ends = {
        **end_offsets(
            admin, [topic_partition for name in inputs for topic_partition in topic_partitions.get(name, ())]
        ),
        **end_offsets(
            admin,
            [topic_partition for name in internal for topic_partition in topic_partitions.get(name, ())],
            End.HIGH_WATERMARK,
        ),
    }
    return sum(
        max(0, end - (commits[topic_partition].offset if topic_partition in commits else 0))
        for topic_partition, end in ends.items()
    )


def _starts(
    admin: KafkaAdmin, topics: Iterable[str], begins: Mapping[str, Mapping[int, int]]
) -> dict[TopicPartition, int]:
    topic_partitions = [
        topic_partition
        for topic in admin.describe_topics(sorted(topics)).values()
        for topic_partition in topic.topic_partitions
    ]
    ends = end_offsets(admin, topic_partitions, End.HIGH_WATERMARK)
    return {
        topic_partition: start
        for topic_partition in topic_partitions
        if (start := begins.get(topic_partition[0], {}).get(topic_partition[1], 0)) < ends[topic_partition]
    }


def _read(
    connection: Connection, starts: Mapping[TopicPartition, int], names: Mapping[str, str], *, every_record: bool
) -> tuple[dict[tuple[Any, ...], Any], int]:
    """What was written: the last value by topic and key, or counts by topic, key and value."""
    found: dict[tuple[Any, ...], Any] = Counter() if every_record else {}
    count = 0
    for message in records(connection, starts, settled=True) if starts else ():
        count += 1
        topic = str(message.topic())
        name = names.get(topic, topic)
        if every_record:
            found[name, message.key(), message.value()] += 1
        else:
            found[name, message.key()] = message.value()
    return found, count


def _differences(
    ours: Mapping[tuple[Any, ...], Any], theirs: Mapping[tuple[Any, ...], Any], *, every_record: bool
) -> Iterable[Difference]:
    for each in sorted({*ours, *theirs}, key=repr):
        if ours.get(each) == theirs.get(each):
            continue
        topic, key, *value = each
        if every_record:
            original, canary = (value[0] if each in side else None for side in (ours, theirs))
            text = f"{ours.get(each, 0)} times by the application, {theirs.get(each, 0)} times by the canary"
        else:
            original, canary = ours.get(each), theirs.get(each)
            text = f"the application has {_shown(original, each in ours)}, the canary {_shown(canary, each in theirs)}"
        yield Difference(topic=topic, key=key, original=original, canary=canary, text=text)


def _shown(value: bytes | None, is_there: bool) -> str:
    if value is None:
        return "deleted it" if is_there else "nothing"
    return repr(value[:_SHOWN_BYTES])
