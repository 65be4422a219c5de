"""The sink of a task whose topic is chosen for each record (KIP-303)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow.compute as pc

from millrace.errors import ProcessingError, RecordRefusedError
from millrace.task.collector import Collector
from millrace.task.dead_letters import NO_ROW
from millrace.task.expressions import evaluate
from millrace.task.failures import FailureHandler, processed_record
from millrace.task.records import Records
from millrace.task.sink import Output, Sink
from millrace.topology.naming import problem_of_name
from millrace.topology.nodes import SinkNode
from millrace.topology.topic_extractors import RecordContext


class RoutingSink:
    """The sink that groups records by the topic chosen for them; within a topic their order stays.

    As long as the application runs, a topic that does not exist yet may be created: each batch asks for it again.
    """

    def __init__(self, node: SinkNode) -> None:
        assert node.extractor is not None
        self._node = node
        self._extractor = node.extractor
        self._sinks: dict[str, Sink] = {}

    def outputs(self, records: Records, collector: Collector, failures: FailureHandler) -> Iterator[Output]:
        """Yields the output as :meth:`Sink.outputs` does, for each topic that was chosen.

        Raises:
            SerializationError: a key or value cannot be written, and the handler does not resume.
            ProcessingError: the extractor raised or named none, and the handler does not continue; or the partitioner
                chose a partition that does not exist.
            UnknownTopicError: a topic does not exist, and the production handler does not resume.
            RecordRefusedError: a name is not legal, or the application may not write to the topic, and the production
                handler does not resume.
        """
        rows_of: dict[str, list[int]] = {}
        for row, topic in self._chosen(records, failures):
            rows_of.setdefault(topic, []).append(row)
        for topic, rows in rows_of.items():
            part = records if len(rows) == len(records) else records.take(np.array(rows, dtype=np.int64))
            if problem := problem_of_name(topic):
                sink = Sink(self._node, topic)
                error = RecordRefusedError(
                    f"The topic name extractor of node {self._node.name} chose the topic {topic!r}, which cannot "
                    f"exist: its name {problem}.",
                    remedy="return a legal name, or filter such records out before",
                )
                batch, _ = sink.encode(part, None, failures)
                sink.discard(batch, error, failures)
            else:
                sink = self._sinks.setdefault(topic, Sink(self._node, topic))
                yield from sink.outputs(part, collector, failures)

    def _chosen(self, records: Records, failures: FailureHandler) -> Iterator[tuple[int, str]]:
        """Yields the rows that have a topic, with the topic."""
        for row, topic in self._extracted(records, failures):
            if isinstance(topic, str):
                yield row, topic
            else:
                error = ProcessingError(
                    f"The topic name extractor of node {self._node.name} gave {topic!r}, not the name of a topic.",
                    remedy="return the name of a topic for every record",
                )
                failures.processing(error, int(records.origin[row]), self._node.name, processed_record(records, row))

    def _extracted(self, records: Records, failures: FailureHandler) -> Iterator[tuple[int, Any]]:
        if isinstance(self._extractor, pc.Expression):
            topics, rows = evaluate(self._extractor, records, failures, self._node.name)
            yield from zip(range(len(records)) if rows is None else rows.tolist(), topics.objects, strict=True)
            return
        pairs = zip(records.keys.objects, records.values.objects, strict=True)
        for row, (key, value) in enumerate(pairs):
            try:
                topic = self._extractor(key, value, _context(records, row, failures))
            except Exception as error:
                failures.processing(error, int(records.origin[row]), self._node.name, processed_record(records, row))
            else:
                yield row, topic


def _context(records: Records, row: int, failures: FailureHandler) -> RecordContext:
    origin = int(records.origin[row])
    own = None if records.positions is None else records.positions[row]
    topic, partition, offset = own or ((None, -1, -1) if origin == NO_ROW else failures.position(origin))
    headers = None if records.headers is None else records.headers[row]
    return RecordContext(topic, partition, offset, int(records.timestamps[row]), tuple(headers or ()))
