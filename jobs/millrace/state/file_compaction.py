"""The compaction of a database's files, part by part in a thread of its own, while the stores are used.

RocksDB compacts without Python's lock, so batches go on; what they feel is the disk and the core it takes.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

import structlog
from rocksdict import BottommostLevelCompaction, CompactOptions, Rdict

MOST_PARTS = 64
"""Parts of a store: between two of them the budget is looked at, and a database that closes waits for one at most."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class CompactionProgress:
    """The progress of a compaction.

    Args:
        bytes_before: bytes of the files of each store before.
        bytes_after: bytes of the files of each store that is done.
        running: whether it goes on.
        problem: what RocksDB said where it failed, or that the budget was over; empty where neither.
    """

    bytes_before: Mapping[str, int]
    bytes_after: Mapping[str, int]
    running: bool
    problem: str = ""


class FileCompaction:
    """A compaction that starts at once, in a thread of its own.

    Args:
        database: the open database.
        stores: the column family of each store.
        budget_s: seconds after which no further part is begun.
    """

    def __init__(self, database: Rdict, stores: Mapping[str, Rdict], *, budget_s: float) -> None:
        self._database = database
        self._stores = dict(stores)
        self._deadline = time.monotonic() + budget_s
        self._ending = threading.Event()
        self._before = {name: _file_bytes(family) for name, family in stores.items()}
        self._after: dict[str, int] = {}
        self._problem = ""
        self._thread = threading.Thread(target=self._run, name="millrace-compaction", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the compaction runs."""
        return self._thread.is_alive()

    @property
    def progress(self) -> CompactionProgress:
        """The progress of the compaction."""
        running = self.is_running
        return CompactionProgress(
            bytes_before=dict(self._before), bytes_after=dict(self._after), running=running, problem=self._problem
        )

    def end(self) -> None:
        """Stops the compaction before the database is closed, which compacts nothing any more afterwards."""
        self._ending.set()
        if self._thread.is_alive():
            # Interrupts what runs; a database that is closed while a thread is in it refuses.
            self._database.cancel_all_background(False)
            self._thread.join()
        self._stores.clear()

    def _run(self) -> None:
        try:
            for name, family in list(self._stores.items()):
                if not self._compact(family):
                    return
                self._after[name] = _file_bytes(family)
        except Exception as error:  # rocksdict raises plain Exception
            self._problem = str(error)
            _log.warning("stores not compacted", problem=self._problem)

    def _compact(self, family: Rdict) -> bool:
        """Compacts a store; returns whether that was completed."""
        options = CompactOptions()
        # Automatic compactions must not wait for ours, or writes would stall.
        options.set_exclusive_manual_compaction(False)
        # Deletions and what they hide leave only when the lowest files are written again.
        options.set_bottommost_level_compaction(BottommostLevelCompaction.force_optimized())
        family.flush()
        bounds: list[bytes | None] = [None, *_bounds(family), None]
        for begin, end in itertools.pairwise(bounds):
            if self._ending.is_set():
                self._problem = "the stores were closed"
            elif time.monotonic() > self._deadline:
                self._problem = "the time was over"
            if self._problem:
                return False
            family.compact_range(begin, end, options)
        return True


def _bounds(family: Rdict) -> list[bytes]:
    """Returns keys, in order, between which there is about one file each."""
    starts = sorted({file["start_key"] for file in family.live_files()} - {b"", None})[1:]
    step = -(-len(starts) // MOST_PARTS) or 1
    return starts[::step]


def _file_bytes(family: Rdict) -> int:
    return int(family.property_int_value("rocksdb.total-sst-files-size") or 0)
