"""A note of the position of a task's directory, readable without opening the database, even while it is in use.

It tells which of several directories of a task, on several hosts, is nearer to the end; what is restored goes by the
position in the database only. So it may be a little old, and is nothing where it cannot be read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
import structlog

from millrace.files import write_atomically
from millrace.state.position import TaskPosition
from millrace.topology.stores import StoreSpec

NOTE_FILE = "position.json"

NOTE_INTERVAL_S = 5.0
"""Time between two notes while a task commits, seconds."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class PositionNote:
    """The position of a task's directory, for the choice among several copies.

    Args:
        position: sum of the changelog offsets that it stands for.
        standby: whether it is a standby copy.
    """

    position: int
    standby: bool = False

    @classmethod
    def of(cls, position: TaskPosition, stores: Sequence[StoreSpec]) -> PositionNote:
        """Returns the note of a position.

        Args:
            position: the position.
            stores: the task's stores that are on disk: an input topic that serves as the changelog of one counts as
                well, as in a standby copy.
        """
        position = position.only_changelogs_of([store.name for store in stores])
        sources = {store.source_topic for store in stores if store.source_topic}
        inputs = sum(offset for (topic, _), offset in position.inputs.items() if topic in sources)
        return cls(sum(position.changelogs.values()) + inputs, position.standby)


def read_position_note(directory: Path) -> PositionNote | None:
    """Returns the note of a task's directory; ``None`` if there is none, or none that can be read."""
    try:
        return PositionNote(**orjson.loads((directory / NOTE_FILE).read_bytes()))
    except (OSError, TypeError, orjson.JSONDecodeError):
        return None


class PositionNotes:
    """A writer of the note of one directory, at most once in an interval.

    Args:
        directory: the task's directory.
        stores: its stores that are on disk.
        clock: a monotonic clock, seconds.
    """

    def __init__(
        self, directory: Path, stores: Sequence[StoreSpec], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = directory / NOTE_FILE
        self._stores = stores
        self._clock = clock
        self._written_at = float("-inf")
        self._written: PositionNote | None = None

    def note(self, position: TaskPosition, *, at_once: bool = False) -> None:
        """Writes the note of a position, unless that was done a moment ago.

        Args:
            position: what the database stands for.
            at_once: also then, since no later one comes.
        """
        if not at_once and self._clock() - self._written_at < NOTE_INTERVAL_S:
            return
        note = PositionNote.of(position, self._stores)
        if note == self._written:
            return
        self._written_at = self._clock()
        try:
            write_atomically(self._path, orjson.dumps(note), waits_for_disk=False, makes_directory=False)
        except OSError as error:
            # The database says whether the disk fails; this file serves placement only.
            _log.warning("position of a task was not noted", path=str(self._path), problem=str(error))
        else:
            self._written = note

    def remove(self) -> None:
        """Removes the note: the directory has no data any more."""
        self._path.unlink(missing_ok=True)
        self._written, self._written_at = None, float("-inf")
