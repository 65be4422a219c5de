"""The sources of a task: which rows of a batch each reads, the order of the rows, and the records made of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import replace

import numpy as np

from millrace.config import StreamsConfig
from millrace.task.columns import IntArray
from millrace.task.failures import FailureHandler
from millrace.task.input import InputBatch, in_stream_order
from millrace.task.records import Records
from millrace.task.source import Source
from millrace.topology.nodes import SourceNode
from millrace.topology.parts import full_topic_name
from millrace.topology.timestamp_extractors import timestamp_extractor_by_name
from millrace.topology.topic_partition import TopicPartition


class Sources:
    """The sources of a task, which read its rows.

    Args:
        nodes: its source nodes, in their order.
        config: the application's configuration.
        failures: what happens to rows that cannot be read.
        partition_times: largest timestamp of each input partition so far, milliseconds; kept up to date here.
        windowed: whether windows or sessions are made of the records.
    """

    def __init__(
        self,
        nodes: Iterable[SourceNode],
        config: StreamsConfig,
        failures: FailureHandler,
        partition_times: MutableMapping[TopicPartition, int],
        *,
        windowed: bool,
    ) -> None:
        self._failures = failures
        default_extractor = timestamp_extractor_by_name(config.default_timestamp_extractor)
        self._sources: dict[str, Source] = {}
        self._source_of_topic: dict[str, str] = {}
        for node in nodes:
            self._sources[node.name] = Source(node, failures, partition_times, default_extractor, windowed=windowed)
            for topic in node.topics:
                name = full_topic_name(topic, config.application_id, internal=node.internal)
                self._source_of_topic[name] = node.name

    def read_topic(self, topic: str, source: str) -> None:
        """Adds a topic to those that a source reads; the source's pattern matches it."""
        self._source_of_topic[topic] = source

    def in_stream_order(self, batch: InputBatch) -> InputBatch:
        """Returns the rows in Kafka Streams' order: see :func:`millrace.task.input.in_stream_order`.

        Where the turns of several inputs depend on what the timestamp extractors say, they are asked here, once.

        Raises:
            ProcessingError: a timestamp extractor raised.
        """
        if len(batch) == 0 or batch.has_one_partition or not any(one.may_reorder for one in self._sources.values()):
            return in_stream_order(batch)
        by_offset = batch.take(np.argsort(batch.offset, kind="stable").astype(np.int64))
        event_time = by_offset.timestamp.copy()
        for name, rows in self._rows(by_offset):
            event_time[rows] = self._sources[name].event_times(by_offset, rows)
        return in_stream_order(replace(by_offset, event_time=event_time))

    def read(self, batch: InputBatch) -> dict[str, list[Records]]:
        """Returns the records that are pending for each source node: those of the rows that can be read.

        Raises:
            SerializationError: a row cannot be read, and the handler does not continue.
            ProcessingError: a timestamp extractor raised.
        """
        pending: dict[str, list[Records]] = {}
        for name, rows in self._rows(batch):
            self._failures.node = name
            records = self._sources[name].read(batch, rows)
            if records is not None:
                pending[name] = [records]
        return pending

    def _rows(self, batch: InputBatch) -> Iterator[tuple[str, IntArray]]:
        for name in self._sources:
            own_topics = [
                number for number, topic in enumerate(batch.topics) if self._source_of_topic.get(topic) == name
            ]
            if len(own_topics) == len(batch.topics):
                rows = np.arange(len(batch), dtype=np.int64)
            else:
                rows = np.flatnonzero(np.isin(batch.topic, own_topics)).astype(np.int64)
            if len(rows):
                yield name, rows
