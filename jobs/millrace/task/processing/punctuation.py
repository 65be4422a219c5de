"""The queue of punctuations, in the order of Kafka Streams' ``PunctuationQueue``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from millrace.topology.processor_api import Punctuator


class PunctuationHandle:
    """The handle that ``schedule`` returns, which cancels a punctuation."""

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        """Cancels the punctuation."""
        self.cancelled = True


@dataclass(frozen=True, eq=False)
class Punctuation:
    """A punctuation that is due at a certain time.

    Args:
        node: the processor node.
        due_ms: from when on it is due, by its clock, milliseconds.
        interval_ms: between two calls, milliseconds.
        callback: what is called.
        handle: ends it.
    """

    node: str
    due_ms: int
    interval_ms: int
    callback: Punctuator
    handle: PunctuationHandle

    def next(self, now_ms: int) -> Punctuation:
        """Returns the punctuation after a call at ``now_ms``: a multiple of the interval later, after now."""
        due_ms = self.due_ms + self.interval_ms
        if now_ms >= due_ms:
            due_ms = self.due_ms + ((now_ms - self.due_ms) // self.interval_ms + 1) * self.interval_ms
        return replace(self, due_ms=due_ms)


class PunctuationQueue:
    """The queue of punctuations, by the time at which they are due.

    Java's ``PriorityQueue`` decides between those that are due together by the index in its heap, so the heap is
    followed here step by step.
    """

    def __init__(self) -> None:
        self._heap: list[Punctuation] = []

    def __iter__(self) -> Iterator[Punctuation]:
        return (one for one in self._heap if not one.handle.cancelled)

    def add(self, punctuation: Punctuation) -> None:
        """Adds a punctuation."""
        heap = self._heap
        heap.append(punctuation)
        index = len(heap) - 1
        while index > 0:
            parent = (index - 1) // 2
            if punctuation.due_ms >= heap[parent].due_ms:
                break
            heap[index] = heap[parent]
            index = parent
        heap[index] = punctuation

    def next_due_ms(self) -> int | None:
        """Returns the time at which the first punctuation is due; ``None`` where there is none."""
        while self._heap and self._heap[0].handle.cancelled:
            self._take()
        return self._heap[0].due_ms if self._heap else None

    def take_due(self, now_ms: int) -> Punctuation | None:
        """Removes and returns the first punctuation if it is due at ``now_ms``; ``None`` otherwise."""
        due_ms = self.next_due_ms()
        return None if due_ms is None or due_ms > now_ms else self._take()

    def clear(self) -> None:
        """Removes all punctuations."""
        self._heap = []

    def _take(self) -> Punctuation:
        heap = self._heap
        first, last = heap[0], heap.pop()
        if heap:
            index, half = 0, len(heap) // 2
            while index < half:
                child = 2 * index + 1
                if child + 1 < len(heap) and heap[child].due_ms > heap[child + 1].due_ms:
                    child += 1
                if last.due_ms <= heap[child].due_ms:
                    break
                heap[index] = heap[child]
                index = child
            heap[index] = last
        return first
