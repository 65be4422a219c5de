"""How many stores are restored at once on a host, over all worker processes of an application."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class RestoreSlots:
    """Places for restorations, each a locked file: the kernel frees those of a process that dies.

    Args:
        directory: where the files are; made if missing.
        count: number of places (``restore.threads``).
    """

    def __init__(self, directory: Path, count: int) -> None:
        self._directory = directory
        self._count = count

    @contextmanager
    def slot(self) -> Iterator[int]:
        """Hold a place, and wait for one where all are taken.

        Yields:
            its number.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        for number in range(self._count):
            descriptor = self._locked(number, wait=False)
            if descriptor is not None:
                break
        else:
            # Which one comes free first is not known; those that wait are spread over all.
            number = threading.get_native_id() % self._count
            descriptor = self._locked(number, wait=True)
        assert descriptor is not None
        try:
            yield number
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def _locked(self, number: int, *, wait: bool) -> int | None:
        descriptor = os.open(self._directory / str(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor
