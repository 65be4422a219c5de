"""The position of a task's stores: their input, the end of each changelog, stream times and counters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from millrace.errors import StateError

FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class TaskPosition:
    """The position of a task's stores. It is kept in the stores' database and written together with their data.

    Args:
        inputs: next offset to read of each input (topic, partition).
        changelogs: end offset of the changelog of each store, as of the commit; markers count.
        stream_times: stream time of each windowed operator, milliseconds, by the name of its store.
        written_at_ms: wall clock of the commit, milliseconds since the epoch; 0 where nothing was committed.
        counters: running totals that must be as exact as the data.
        run_id: number of the run of the application that committed.
        origin: what the stores were made from, where another origin needs them to be made again; empty where none does.
        standby: whether a standby wrote it: the stores stand for their changelogs up to ``changelogs``, and for no
            input that is known; those that are not logged are empty.
    """

    inputs: Mapping[tuple[str, int], int] = field(default_factory=dict)
    changelogs: Mapping[str, int] = field(default_factory=dict)
    stream_times: Mapping[str, int] = field(default_factory=dict)
    written_at_ms: int = 0
    counters: Mapping[str, int] = field(default_factory=dict)
    run_id: int = 0
    origin: str = ""
    standby: bool = False

    def only_changelogs_of(self, stores: Collection[str]) -> TaskPosition:
        """Returns the position without the changelog offsets of other stores than ``stores``."""
        return replace(self, changelogs={name: end for name, end in self.changelogs.items() if name in stores})

    def to_bytes(self) -> bytes:
        """Returns the position as it is stored in the database."""
        return orjson.dumps(
            {
                "version": FORMAT_VERSION,
                "inputs": [[topic, partition, offset] for (topic, partition), offset in self.inputs.items()],
                "changelogs": dict(self.changelogs),
                "stream_times": dict(self.stream_times),
                "written_at_ms": self.written_at_ms,
                "counters": dict(self.counters),
                "run_id": self.run_id,
                **({"origin": self.origin} if self.origin else {}),
                **({"standby": True} if self.standby else {}),
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> TaskPosition:
        """Parses the output of :meth:`to_bytes`.

        Raises:
            StateError: the bytes were written by a newer version, or are damaged.
        """
        try:
            fields: dict[str, Any] = orjson.loads(data)
            version = fields.pop("version")
        except (orjson.JSONDecodeError, KeyError) as error:
            raise StateError(
                f"The position in the state database is damaged: {data[:80]!r}.",
                remedy="delete the task's state directory; it is restored from the changelogs",
            ) from error
        if version != FORMAT_VERSION:
            raise StateError(
                f"The position in the state database has format {version}; this version reads {FORMAT_VERSION}.",
                remedy="run the version that wrote it, or delete the task's state directory to restore it",
            )
        inputs = {(topic, partition): offset for topic, partition, offset in fields.pop("inputs")}
        return cls(inputs=inputs, **fields)
