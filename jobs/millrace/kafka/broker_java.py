"""The virtual machine with the broker's classes, in which the embedded broker and the broker's own tools run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from millrace.kafka.jars import class_path
from millrace.kafka.java import find_java
from millrace.kafka.jsa_archives import archive_path


def broker_java(jars: Sequence[Path]) -> list[str]:
    """Returns its command line without a main class; it maps the archive of its classes if there is one.

    Args:
        jars: the broker's.

    Raises:
        PreflightError: there is no Java, or one older than version 17.
    """
    archive = broker_archive(jars)
    mapped = [f"-XX:SharedArchiveFile={archive}"] if archive.is_file() else []
    return [str(find_java()), "-cp", class_path(jars), *mapped]


def broker_archive(jars: Sequence[Path]) -> Path:
    """Returns the path of the archive of the broker's classes, which may not exist yet.

    Args:
        jars: the broker's.

    Raises:
        PreflightError: there is no Java.
    """
    return archive_path("broker", jars)
