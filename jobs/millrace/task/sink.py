"""A sink node in a task: records to bytes and partitions."""

from __future__ import annotations

import numpy as np

from millrace.errors import ProcessingError
from millrace.kafka.murmur2 import partitions_for
from millrace.task.collector import UNASSIGNED_PARTITION, Collector, OutputBatch
from millrace.task.records import Records
from millrace.task.serialization import or_default, to_bytes_list
from millrace.topology.nodes import SinkNode
from millrace.topology.topology import full_topic_name


class Sink:
    """Writes what reaches it to its topic, with the records' own timestamps and headers."""

    def __init__(self, node: SinkNode, application_id: str) -> None:
        self._node = node
        self._topic = full_topic_name(node.topic, application_id, internal=node.internal)
        self._key_serde = or_default(node.key_serde)
        self._value_serde = or_default(node.value_serde)

    def write(self, records: Records, collector: Collector) -> None:
        """Hands the records to the collector.

        Raises:
            SerializationError: a key or value is not of its serde's type.
            ProcessingError: the partitioner chose a partition that does not exist.
        """
        if len(records) == 0:
            return
        keys = to_bytes_list(records.keys, self._key_serde)
        values = to_bytes_list(records.values, self._value_serde)
        count = collector.partition_count(self._topic)
        partitions = self._chosen(records, count) if self._node.partitioner else partitions_for(keys, count)
        collector.send(OutputBatch(self._topic, keys, values, records.timestamps, partitions, records.headers))

    def _chosen(self, records: Records, count: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        assert self._node.partitioner is not None
        chosen = []
        for key, value in zip(records.keys.objects, records.values.objects, strict=True):
            partition = self._node.partitioner(self._topic, key, value, count)
            if partition is None:
                partition = UNASSIGNED_PARTITION
            elif not 0 <= partition < count:
                raise ProcessingError(
                    f"The partitioner of node {self._node.name} chose partition {partition} of topic {self._topic}, "
                    f"which has {count}.",
                    remedy="return a number from 0 to the number of partitions less one, or None",
                )
            chosen.append(partition)
        return np.array(chosen, dtype=np.int32)
