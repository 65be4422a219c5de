"""The emit strategy of a windowed aggregation: when it sends results.

Source: ``org.apache.kafka.streams.kstream.EmitStrategy`` (KIP-825).
"""

from __future__ import annotations

from enum import StrEnum


class EmitStrategy(StrEnum):
    """The choice of when the results of windows are emitted.

    Made by :meth:`on_window_update` and :meth:`on_window_close`.
    """

    WINDOW_UPDATE = "on window update"
    """With every record, or with every commit where the store is cached."""
    WINDOW_CLOSE = "on window close"
    """Once, when stream time has passed the end of the window and its grace."""

    @classmethod
    def on_window_update(cls) -> EmitStrategy:
        """Emits a result for every update of a window: the default."""
        return cls.WINDOW_UPDATE

    @classmethod
    def on_window_close(cls) -> EmitStrategy:
        """Emits one final result for each window, when it closes."""
        return cls.WINDOW_CLOSE
