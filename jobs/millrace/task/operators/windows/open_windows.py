"""The open windows of an aggregation, in the order in which they will close."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from _typeshed import SupportsRichComparison

T = TypeVar("T", bound="SupportsRichComparison")


class OpenWindows(Generic[T]):
    """The open windows by closing time: for time windows keys by start, for sessions start and key by end."""

    def __init__(self) -> None:
        self._by_time: dict[int, set[T]] = {}
        self._times: list[int] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def first_time(self) -> int | None:
        """The smallest time, milliseconds; ``None`` where no window is open."""
        while self._times and self._times[0] not in self._by_time:
            heappop(self._times)
        return self._times[0] if self._times else None

    def add(self, time: int, windows: Iterable[T]) -> None:
        """Adds windows; those that are present already stay once."""
        known = self._by_time.get(time)
        if known is None:
            known = self._by_time[time] = set()
            heappush(self._times, time)
        before = len(known)
        known.update(windows)
        self._count += len(known) - before

    def discard(self, time: int, window: T) -> None:
        """Removes a window, if it is present."""
        known = self._by_time.get(time)
        if known is not None and window in known:
            known.remove(window)
            self._count -= 1
            if not known:
                del self._by_time[time]

    def pop_until(self, time: int) -> list[tuple[int, list[T]]]:
        """Removes and returns the windows up to and including a time: sorted by time, and within each time."""
        popped: list[tuple[int, list[T]]] = []
        while (first := self.first_time) is not None and first <= time:
            heappop(self._times)
            windows = sorted(self._by_time.pop(first))
            self._count -= len(windows)
            popped.append((first, windows))
        return popped
