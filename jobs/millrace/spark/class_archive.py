"""The archive of Spark's classes, which a Java virtual machine maps into memory instead of loading and linking them.

That saves 4 of the 17 s that a driver needs to its first output. Java calls the file a dynamic archive of application
class-data sharing (JEP 350). It is made once, by a short streaming query that reads from an embedded broker, and serves
the same Java with the same jars only: a virtual machine that finds another class path leaves the archive aside.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from millrace.embedded.class_archive import recorded_broker
from millrace.kafka.jars import SPARK_KAFKA_JARS, Progress, class_path, resolve_jars, spark_home
from millrace.kafka.jsa_archives import QUIET, Recording, archive_path, install_archive

JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
"""Not the extra ones, which users set: these come before them."""

CLASS_PATH = "spark.driver.extraClassPath"
RECORDING_LIMIT_S = 900


def class_archive_settings(jars: Sequence[Path]) -> dict[str, str]:
    """Returns the Spark settings with which a driver uses the archive; empty if there is no archive.

    Args:
        jars: the Kafka connector and what it needs.
    """
    archive = _archive(jars)
    if not archive.is_file():
        return {}
    return {CLASS_PATH: class_path(jars), JAVA_OPTIONS: f"{' '.join(QUIET)} -XX:SharedArchiveFile={archive}"}


def make_class_archive(progress: Progress) -> Path:
    """Returns the archive for the installed Java and jars, and makes it if it is missing, which takes about 40 s.

    Archives of other versions are removed.

    Args:
        progress: gets a line of text for each step.

    Raises:
        OperationError: the query failed, or took longer than fifteen minutes.
        PreflightError: Java or the jars are missing.
    """
    jars = resolve_jars(SPARK_KAFKA_JARS, progress=progress)
    archive = _archive(jars)
    if archive.is_file():
        return archive
    # Beside the archive, so that it can be renamed: a half-written one is never used.
    with (
        tempfile.TemporaryDirectory(prefix=".classes-", dir=archive.parent) as name,
        recorded_broker(progress) as broker,
    ):
        recorded = Path(name) / archive.name
        progress("recording the classes that Spark loads, so that drivers start sooner (once, 30 s)")
        Recording(
            command=[sys.executable, "-m", "millrace.spark.class_recording", broker.bootstrap_servers, str(recorded)],
            what="Spark's classes",
            limit_s=RECORDING_LIMIT_S,
            cwd=Path(name),
        ).run(recorded)
        return install_archive(recorded, archive, progress)


def recording_settings(jars: Sequence[Path], archive: Path) -> dict[str, str]:
    """Returns the Spark settings of a driver whose virtual machine writes the archive when it ends."""
    return {CLASS_PATH: class_path(jars), JAVA_OPTIONS: f"{' '.join(QUIET)} -XX:ArchiveClassesAtExit={archive}"}


def _archive(jars: Sequence[Path]) -> Path:
    return archive_path("spark", (spark_home() / "jars", *jars))
