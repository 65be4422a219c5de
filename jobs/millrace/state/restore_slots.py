"""The limit of the stores that are restored at the same time on a host, over all workers of an application."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from millrace.files import lock_file, unlock_file


class RestoreSlots:
    """Slots for restorations, each a locked file: the kernel frees those of a process that dies.

    Args:
        directory: where the files are; made if missing.
        count: number of slots (``restore.threads``).
    """

    def __init__(self, directory: Path, count: int) -> None:
        self._directory = directory
        self._count = count

    @contextmanager
    def slot(self) -> Iterator[int]:
        """Holds a slot while the body runs; waits for one if all are taken.

        Yields:
            its number.
        """
        for number in range(self._count):
            descriptor = lock_file(self._directory / str(number))
            if descriptor is not None:
                break
        else:
            # Which one comes free first is not known; those that wait are spread over all.
            number = threading.get_native_id() % self._count
            descriptor = lock_file(self._directory / str(number), timeout_s=None)
        assert descriptor is not None
        try:
            yield number
        finally:
            unlock_file(descriptor)
