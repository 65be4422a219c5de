"""The most memory that a contestant took: of all its processes together, and of one Python worker."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from types import TracebackType

import psutil

from tests.bench.processes import workers_of

_INTERVAL_S = 0.5


@dataclass(frozen=True)
class MemoryFigures:
    """The most that was seen at one moment; shared pages count once (proportional set size).

    Args:
        processes_bytes: of the contestant's process and all that descend from it.
        worker_bytes: of one of its Python workers; 0 where it has none.
    """

    processes_bytes: int = 0
    worker_bytes: int = 0


class MemoryMeter:
    """Looks at the memory of a process and its descendants, twice a second, from entering to leaving.

    Args:
        pid: of the process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._most = MemoryFigures()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory-meter", daemon=True)

    @property
    def figures(self) -> MemoryFigures:
        """The most that was seen so far."""
        return self._most

    def __enter__(self) -> MemoryMeter:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_INTERVAL_S):
            try:
                root = psutil.Process(self._pid)
                family, workers = [root, *root.children(recursive=True)], workers_of(self._pid)
            except psutil.NoSuchProcess:  # it has ended
                return
            self._most = MemoryFigures(
                max(self._most.processes_bytes, sum(map(_pss_bytes, family))),
                max([self._most.worker_bytes, *map(_pss_bytes, workers)]),
            )


def _pss_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.NoSuchProcess:  # it has ended meanwhile
        return 0
