"""The most memory that a contestant took: of all its processes together, and of one Python worker."""

from __future__ import annotations

import time

import psutil

from tests.bench.processes import family_of, is_python_worker

_INTERVAL_S = 0.5


class MemoryMeter:
    """The most that was seen at one moment; shared pages count once (proportional set size).

    Args:
        pid: of the contestant's process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._next_at = 0.0
        self.processes_bytes = 0
        """Of the contestant's process and all that descend from it."""
        self.worker_bytes = 0
        """Of one of its Python workers; 0 where it has none."""

    def look(self) -> None:
        """Looks at the processes; twice a second at most, since the kernel walks through all their pages."""
        if time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + _INTERVAL_S
        total = 0
        for process in family_of(self._pid):
            try:
                bytes_of_it = int(process.memory_full_info().pss)
                if is_python_worker(process):
                    self.worker_bytes = max(self.worker_bytes, bytes_of_it)
            except psutil.NoSuchProcess:  # it has ended meanwhile
                continue
            total += bytes_of_it
        self.processes_bytes = max(self.processes_bytes, total)
