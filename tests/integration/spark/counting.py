"""Records of an application that counts them, and whether each was counted once."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path

from millrace.task.crash_points import CrashPoint
from tests.application import Application
from tests.integration.spark.conftest import World
from tests.records import Record

KEYS = (b"a", b"b", b"c", b"d")


class Sent:
    """How many records of each key were sent, and whether as many updates came out, each once."""

    def __init__(self, world: World, application: Application) -> None:
        self.world = world
        self.application = application
        self.counts: Counter[bytes] = Counter()

    def send(self, count: int = 3) -> None:
        """Sends records of every key."""
        self.world.send("named", *[Record(key, b"x", 5) for key in KEYS for _ in range(count)])
        self.counts.update(dict.fromkeys(KEYS, count))

    def check(self) -> None:
        """Every update came out, none twice, in order."""
        self.application.wait_until_caught_up(timeout_s=180)
        updates: dict[bytes, list[int]] = {}
        for record in self.world.read("named-out"):
            updates.setdefault(record.key or b"", []).append(struct.unpack(">q", record.value or b"")[0])
        assert updates == {key: list(range(1, count + 1)) for key, count in self.counts.items()}


def arm(points: Path, point: CrashPoint) -> None:
    """Has the next process that comes to a point die there."""
    written = points / "new"
    written.write_text("SIGKILL")
    written.rename(points / point)
