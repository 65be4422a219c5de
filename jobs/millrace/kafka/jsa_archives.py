"""Dynamic archives of Java classes (JEP 350): their names, their recording and their replacement."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from millrace.errors import OperationError
from millrace.home import millrace_home
from millrace.kafka.java import locate_java
from millrace.processes import run_to_the_end

QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""Options of a virtual machine with an archive: what recording leaves out is a warning for each class."""


def archive_path(kind: str, files: Iterable[Path]) -> Path:
    """Returns the path of an archive.

    It is named by what it depends on, since Java does not report an archive that it ignores.

    Args:
        kind: what it is for; the name begins so.
        files: what it depends on beside Java.

    Raises:
        PreflightError: there is no Java.
    """
    parts = [f"{file.resolve()}:{file.stat().st_mtime_ns}" for file in (locate_java(), *files)]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return (millrace_home() / "jars").resolve() / f"{kind}-{digest}.jsa"


@dataclass(frozen=True, kw_only=True)
class Recording:
    """A command whose virtual machine writes an archive when it ends.

    Args:
        command: program and arguments.
        what: whose classes, for people.
        limit_s: longest time that it may take, seconds.
        cwd: its working directory; that of the caller by default.
        environment: all its variables; those of the caller by default.
    """

    command: Sequence[str]
    what: str
    limit_s: float
    cwd: Path | None = None
    environment: Mapping[str, str] | None = None

    def run(self, recorded: Path) -> None:
        """Runs the command, and returns once the archive is written.

        Args:
            recorded: where the command writes it.

        Raises:
            OperationError: the command failed, or took too long.
        """
        try:
            done = run_to_the_end(self.command, timeout_s=self.limit_s, cwd=self.cwd, environment=self.environment)
        except subprocess.TimeoutExpired as error:
            raise OperationError(
                f"Recording {self.what} took longer than {self.limit_s:g} s.", remedy="try again on a quieter machine"
            ) from error
        if done.returncode != 0 or not recorded.is_file():
            raise OperationError(
                f"{self.what[0].upper()}{self.what[1:]} could not be recorded (status {done.returncode}): "
                + " | ".join(done.stderr.strip().splitlines()[-5:])
                + ".",
                remedy="applications run without them too; their start takes longer",
            )


def install_archive(recorded: Path, archive: Path, progress: Callable[[str], None]) -> Path:
    """Replaces the archives of other versions by a recorded one, which is moved as a whole.

    Args:
        recorded: where it was written, on the same file system.
        archive: its path, see :func:`archive_path`.
        progress: gets a line of text.

    Returns:
        Its path.
    """
    kind = archive.name.partition("-")[0]
    for old in archive.parent.glob(f"{kind}-*.jsa"):
        old.unlink()
    recorded.rename(archive)
    progress(f"recorded {archive.name}: {archive.stat().st_size / 1e6:.0f} MB")
    return archive
