"""The outputs of a topology under test: topic by topic to be read, and all of them in order."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

from millrace.config import StreamsConfig
from millrace.errors import TopologyError
from millrace.serdes import BytesSerde, Serde
from millrace.task.collector import UNASSIGNED_PARTITION, OutputBatch
from millrace.task.columns import IntArray
from millrace.task.records import concat_orders, sorted_rows
from millrace.task.serialization import or_default
from millrace.testing.topics import RawRecord, TestRecord, decoded
from millrace.topology.layout import ApplicationTopics
from millrace.topology.parts import full_topic_name
from millrace.topology.topology import FrozenTopology

_BYTES = (BytesSerde(), BytesSerde())


class Outputs:
    """Records by topic.

    Args:
        topology: says which topics there can be.
        config: says where dead-letter records go.
    """

    def __init__(self, topology: FrozenTopology, config: StreamsConfig) -> None:
        application_id = config.application_id
        self._queues: defaultdict[str, deque[RawRecord]] = defaultdict(deque)
        self._history: list[tuple[str, RawRecord]] = []
        self._produced: set[str] = set()
        self.changelogs: defaultdict[str, list[RawRecord]] = defaultdict(list)
        """What was written to the changelog topics."""
        self._serdes: dict[str, tuple[Serde, Serde]] = {}
        self._internal: set[str] = set()
        chosen = [(or_default(sink.key_serde), or_default(sink.value_serde)) for sink in topology.choosing_sinks]
        for sink in (sink for part in topology.sub_topologies for sink in part.sinks):
            if sink.topic is None:
                continue
            name = full_topic_name(sink.topic, application_id, internal=sink.internal)
            serdes = _BYTES if sink.internal else (or_default(sink.key_serde), or_default(sink.value_serde))
            self._serdes[name] = serdes if self._serdes.get(name, serdes) == serdes else _BYTES
            if sink.internal:
                self._internal.add(name)
        self._chosen = chosen[0] if chosen and all(each == chosen[0] for each in chosen) else _BYTES
        changelogs = ApplicationTopics(topology, application_id).own_changelogs.values()
        dead_letters = config.errors_dead_letter_queue_topic_name
        self._known = {*self._serdes, *changelogs, *([] if dead_letters is None else [dead_letters])}
        handlers = (
            config.deserialization_exception_handler,
            config.processing_exception_handler,
            config.production_exception_handler,
        )
        # A handler of the user's own may name any topic, as may the records themselves.
        self._may_be_any = bool(chosen) or any(":" in handler for handler in handlers)

    def queue(self, topic: str) -> deque[RawRecord]:
        """Returns the records of a topic that were not read yet.

        Raises:
            TopologyError: nothing writes to the topic.
        """
        if topic not in self._known and topic not in self._produced and not self._may_be_any:
            raise TopologyError(
                f"Nothing of the topology writes to the topic {topic!r}; what it writes to: "
                f"{', '.join(sorted(self._known)) or 'no topic'}.",
                remedy="correct the name, or add a sink",
            )
        return self._queues[topic]

    def add(self, batches: Sequence[OutputBatch]) -> list[tuple[str, RawRecord]]:
        """Files what a task wrote; returns what does not go to changelogs, in the order of a record-by-record walk."""
        onward: list[tuple[str, RawRecord]] = []
        orders: list[tuple[IntArray, ...]] = []
        unordered: list[tuple[str, RawRecord]] = []
        for batch in batches:
            records = _records(batch)
            if records:
                self._produced.add(batch.topic)
            self._queues[batch.topic].extend(records)
            if batch.store is not None:
                self.changelogs[batch.topic].extend(records)
                continue
            if batch.order is None or not records:
                unordered.extend((batch.topic, record) for record in records)
                continue
            onward.extend((batch.topic, record) for record in records)
            orders.append(batch.order)
        if len(orders) > 1:
            onward = [onward[index] for index in sorted_rows(concat_orders(orders)).tolist()]
        onward += unordered
        self._history += onward
        return onward

    @property
    def produced(self) -> set[str]:
        """Names of the topics that have got a record."""
        return set(self._produced)

    def history(self, *, internal: bool) -> list[tuple[str, TestRecord]]:
        """Returns all records since the start with their topics, in the order in which they were written.

        Args:
            internal: those of repartition topics as well, as bytes.
        """
        return [
            (topic, decoded(record, *self._serdes.get(topic, _BYTES if topic in self._known else self._chosen)))
            for topic, record in self._history
            if internal or topic not in self._internal
        ]


def _records(batch: OutputBatch) -> list[RawRecord]:
    partitions = [batch.partitions] * len(batch) if isinstance(batch.partitions, int) else batch.partitions.tolist()
    return [
        RawRecord(
            key,
            value,
            int(batch.timestamps[row]),
            [] if batch.headers is None or batch.headers[row] is None else list(batch.headers[row]),
            None if partitions[row] == UNASSIGNED_PARTITION else partitions[row],
        )
        for row, (key, value) in enumerate(zip(batch.keys, batch.values, strict=True))
    ]
