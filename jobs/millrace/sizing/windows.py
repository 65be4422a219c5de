"""The windows that hold a record.

Source: the window classes of ``org.apache.kafka.streams.kstream``: windows are aligned to the epoch in UTC, their start
is inclusive, their end exclusive, and none starts before the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass

from millrace.errors import TopologyError
from millrace.topology.windows import Duration, TimeWindows, to_milliseconds


@dataclass(frozen=True, order=True)
class TimeWindow:
    """A window of event time.

    Args:
        start: first millisecond that belongs to it.
        end: first millisecond that does not.
    """

    start: int
    end: int


def calculate_tumbling_window(timestamp: int, size: Duration) -> TimeWindow:
    """Returns the window that holds a record: ``start = timestamp - timestamp mod size``, ``end = start + size``.

    Args:
        timestamp: the record's, milliseconds since the epoch.
        size: length of a window, a ``timedelta`` or milliseconds.

    Raises:
        TopologyError: the size is not above 0, or the timestamp is negative: such records are dropped.
    """
    [window] = calculate_hopping_window(timestamp, size, size)
    return window


def calculate_hopping_window(timestamp: int, size: Duration, advance: Duration) -> tuple[TimeWindow, ...]:
    """Returns all windows that hold a record, the oldest first.

    They start at the multiples of ``advance`` in ``(timestamp - size, timestamp]`` that are 0 or more: size / advance
    of them, rounded up or down where the advance does not divide the size; fewer within the first ``size``.

    Args:
        timestamp: the record's, milliseconds since the epoch.
        size: length of a window, a ``timedelta`` or milliseconds.
        advance: distance between the starts of neighbouring windows, above 0 and at most the size.

    Raises:
        TopologyError: size or advance is out of its range, or the timestamp is negative: such records are dropped.
    """
    if isinstance(timestamp, bool) or not isinstance(timestamp, int) or timestamp < 0:
        raise TopologyError(
            f"The timestamp must be 0 ms or more, in whole milliseconds, not {timestamp!r}.",
            remedy="give the milliseconds since the epoch; records with a negative timestamp are dropped",
        )
    windows = TimeWindows(size_ms=to_milliseconds(size), advance_ms=to_milliseconds(advance), grace_ms=0)
    return tuple(TimeWindow(start, start + windows.size_ms) for start in windows.starts_of(timestamp))
