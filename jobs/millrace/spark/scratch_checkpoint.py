"""Spark's checkpoint of a streaming query, which is never read again: committed offsets are the progress."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import psutil

_IN_MEMORY = Path("/dev/shm")


class ScratchCheckpoint:
    """A directory for the checkpoint of one start of a query: in memory, if the host has such a directory.

    Args:
        name: of the query.
        directory: where it goes.
    """

    def __init__(self, name: str, *, directory: Path | None = None) -> None:
        self._name = name
        self._directory = directory or (_IN_MEMORY if _IN_MEMORY.is_dir() else Path(tempfile.gettempdir()))
        self.path: Path | None = None
        """The directory; none before the start and after the end."""

    def create(self) -> Path:
        """Creates a new directory; removes the last one, and those that killed drivers of this query left."""
        self.remove()
        self._remove_left()
        prefix = f"{self._prefix}{os.getpid()}-"
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=self._directory))
        return self.path

    def remove(self) -> None:
        """Removes the last directory, if there is one."""
        if self.path is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            self.path = None

    @property
    def _prefix(self) -> str:
        return f"millrace-checkpoint-{self._name}-"

    def _remove_left(self) -> None:
        for path in self._directory.glob(f"{self._prefix}*"):
            number, _, remaining = path.name.removeprefix(self._prefix).partition("-")
            # What another query's name continues is not ours.
            if number.isdecimal() and remaining and "-" not in remaining and not psutil.pid_exists(int(number)):
                shutil.rmtree(path, ignore_errors=True)
