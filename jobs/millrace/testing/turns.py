"""Whose turn it is among the topics of a test driver, whose records lead to records in other topics."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Generic, TypeVar

RecordT = TypeVar("RecordT")


class TopicTurns(Generic[RecordT]):
    """Records that wait in topics: the next is always of the topic whose first one has the smallest timestamp.

    Among equals the turn follows from the shape of a heap, which is that of ``java.util.PriorityQueue``, as in Kafka
    Streams' ``PartitionGroup``: so a record goes through the sub-topologies in the order of its test driver, which
    runs them as one task.
    """

    def __init__(self) -> None:
        self._buffered: defaultdict[str, deque[tuple[int, RecordT]]] = defaultdict(deque)
        self._heap: list[str] = []

    def __bool__(self) -> bool:
        """Returns whether a record is buffered."""
        return bool(self._heap)

    def add(self, topic: str, timestamp: int, record: RecordT) -> None:
        """Puts a record at the end of its topic."""
        buffered = self._buffered[topic]
        buffered.append((timestamp, record))
        if len(buffered) == 1:
            self._offer(topic)

    def next(self) -> tuple[str, RecordT]:
        """Takes the next record, of which there must be one."""
        topic = self._poll()
        buffered = self._buffered[topic]
        _, record = buffered.popleft()
        if buffered:
            self._offer(topic)
        return topic, record

    def _time(self, topic: str) -> int:
        return self._buffered[topic][0][0]

    def _offer(self, topic: str) -> None:
        heap, index, time = self._heap, len(self._heap), self._time(topic)
        heap.append(topic)
        while index > 0 and time < self._time(heap[(index - 1) // 2]):
            heap[index] = heap[(index - 1) // 2]
            index = (index - 1) // 2
        heap[index] = topic

    def _poll(self) -> str:
        heap = self._heap
        first, last = heap[0], heap.pop()
        if heap:
            self._sift_down(last)
        return first

    def _sift_down(self, topic: str) -> None:
        heap, index, time = self._heap, 0, self._time(topic)
        while 2 * index + 1 < len(heap):
            child = 2 * index + 1
            if child + 1 < len(heap) and self._time(heap[child + 1]) < self._time(heap[child]):
                child += 1
            if time <= self._time(heap[child]):
                break
            heap[index] = heap[child]
            index = child
        heap[index] = topic
