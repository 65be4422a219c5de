"""Spark's classes as a file that a Java virtual machine maps into memory instead of reading, checking and linking them.

That saves 4 of the 17 s that a driver needs to its first output. Java calls the file a dynamic archive of application
class-data sharing (JEP 350). It is made once, by a short streaming query that reads from an embedded broker, and serves
the same Java with the same jars only: a virtual machine that finds another class path leaves the archive aside.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from millrace.errors import OperationError
from millrace.home import millrace_home
from millrace.kafka.broker import EmbeddedBroker
from millrace.kafka.jars import SPARK_KAFKA_JARS, Progress, class_path, resolve_jars, spark_home
from millrace.kafka.java import locate_java
from millrace.processes import run_to_the_end

JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
"""Not the extra ones, which users set: these come before them."""

CLASS_PATH = "spark.driver.extraClassPath"
RECORDING_LIMIT_S = 300

_QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""What the archive leaves out is a warning for each class."""


def class_archive_settings(jars: Sequence[Path]) -> dict[str, str]:
    """Spark settings that make a driver use the archive; none where there is no archive.

    Args:
        jars: the Kafka connector and what it needs.
    """
    archive = _archive(jars)
    if not archive.is_file():
        return {}
    return {CLASS_PATH: _path_of(jars), JAVA_OPTIONS: f"{_QUIET} -XX:SharedArchiveFile={archive}"}


def make_class_archive(progress: Progress) -> Path:
    """The archive for the present Java and jars, made if it is not there yet, which takes about 40 s.

    Archives of other versions are removed.

    Args:
        progress: gets a line of text for each step.

    Raises:
        OperationError: the query failed, or took longer than five minutes.
        PreflightError: Java or the jars are missing.
    """
    jars = resolve_jars(SPARK_KAFKA_JARS, progress=progress)
    archive = _archive(jars)
    if archive.is_file():
        return archive
    # Beside the archive, so that it can be renamed: a half-written one is never used.
    with tempfile.TemporaryDirectory(prefix=".classes-", dir=archive.parent) as name:
        directory = Path(name)
        recorded = directory / archive.name
        broker = EmbeddedBroker(directory / "broker")
        broker.start(progress=progress)
        try:
            progress("recording the classes that Spark loads, so that drivers start sooner (once, 30 s)")
            _record(broker.bootstrap_servers, recorded, directory)
        finally:
            broker.stop()
        for old in archive.parent.glob("spark-*.jsa"):
            old.unlink()
        recorded.rename(archive)
    progress(f"recorded {archive.name}: {archive.stat().st_size / 1e6:.0f} MB")
    return archive


def recording_settings(jars: Sequence[Path], archive: Path) -> dict[str, str]:
    """Spark settings of a driver whose virtual machine writes the archive when it ends."""
    return {CLASS_PATH: _path_of(jars), JAVA_OPTIONS: f"{_QUIET} -XX:ArchiveClassesAtExit={archive}"}


def _record(bootstrap_servers: str, archive: Path, directory: Path) -> None:
    command = [sys.executable, "-m", "millrace.spark.class_recording", bootstrap_servers, str(archive)]
    try:
        result = run_to_the_end(command, timeout_s=RECORDING_LIMIT_S, cwd=directory)
    except subprocess.TimeoutExpired as error:
        raise OperationError(
            f"Recording Spark's classes took longer than {RECORDING_LIMIT_S} s.",
            remedy="try again on a quieter machine",
        ) from error
    if result.returncode != 0 or not archive.is_file():
        raise OperationError(
            f"Spark's classes could not be recorded (status {result.returncode}): "
            + " | ".join(result.stderr.strip().splitlines()[-5:])
            + ".",
            remedy="applications run without the archive too; their start takes longer",
        )


def _archive(jars: Sequence[Path]) -> Path:
    """Named by what it depends on, since a virtual machine says nothing when it leaves an archive aside."""
    java = locate_java().resolve()
    files = (java, spark_home() / "jars", *(jar.resolve() for jar in jars))
    parts = [f"{file}:{file.stat().st_mtime_ns}" for file in files]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return (millrace_home() / "jars").resolve() / f"spark-{digest}.jsa"


def _path_of(jars: Sequence[Path]) -> str:
    # Virtual machines compare class paths as text, and the directory of the jars may be a link.
    return class_path(tuple(jar.resolve() for jar in jars))
