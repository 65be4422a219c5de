"""A faster start of Spark's launcher, the virtual machine that only computes the command of Spark's own one.

The launcher runs for a fifth of a second, during which nothing else of a driver can run; with its classes in an archive
of their own (JEP 350), and without an optimising compiler, for a third of that. ``spark-submit`` takes its options from
``SPARK_LAUNCHER_OPTS``.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from millrace.kafka.jars import Progress, spark_home
from millrace.kafka.java import QUICK_TO_START
from millrace.kafka.jsa_archives import Recording, archive_path, install_archive

VARIABLE = "SPARK_LAUNCHER_OPTS"
_OPTIONS = " ".join(QUICK_TO_START)
_RECORDING_LIMIT_S = 300


def launcher_environment() -> dict[str, str]:
    """Returns the variables that make ``spark-submit`` start faster: Spark's directory, and the launcher's options."""
    archive = launcher_archive()
    # The script divides the variable at blanks, whatever is around them.
    is_usable = archive.is_file() and len(str(archive).split()) == 1
    mapped = f" -XX:SharedArchiveFile={archive}" if is_usable else ""
    return {"SPARK_HOME": str(spark_home()), VARIABLE: f"{_OPTIONS}{mapped}"}


def launcher_archive() -> Path:
    """Returns the path of the archive, which may not exist yet."""
    return archive_path("launcher", (spark_home() / "jars",))


def make_launcher_archive(progress: Progress) -> Path:
    """Returns the archive for the installed Java and Spark, and makes it if it is missing, which takes a second.

    Older ones are removed.

    Args:
        progress: gets a line of text where it is made.

    Raises:
        OperationError: the launcher failed, or took longer than five minutes.
        PreflightError: there is no Java.
    """
    archive = launcher_archive()
    if archive.is_file():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".launcher-", dir=archive.parent) as name:
        recorded = Path(name) / archive.name
        # Spark's own script runs it: the class path and the environment must be the same.
        options = f"{_OPTIONS} -XX:ArchiveClassesAtExit={recorded}"
        Recording(
            command=[str(spark_home() / "bin" / "spark-submit"), "--version"],
            what="the classes of Spark's launcher",
            limit_s=_RECORDING_LIMIT_S,
            environment={**os.environ, "SPARK_HOME": str(spark_home()), VARIABLE: options},
        ).run(recorded)
        return install_archive(recorded, archive, progress)
