"""The Java that runs the broker and Spark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from millrace.errors import PreflightError

LEAST_VERSION = 17
QUICK_TO_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options of virtual machines that launch, watch or live for minutes: what an optimising compiler takes does not come
back."""
_REMEDY = (
    f"install Java {LEAST_VERSION} or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless), "
    "or set JAVA_HOME to one"
)


def find_java() -> Path:
    """Returns the ``java`` of ``JAVA_HOME``, or else the first one on ``PATH``, after checking its version.

    Raises:
        PreflightError: there is none, or it is older than version 17.
    """
    java = locate_java()
    version = java_version(java)
    if version < LEAST_VERSION:
        raise PreflightError(f"{java} is Java {version}; the broker needs {LEAST_VERSION} or newer.", remedy=_REMEDY)
    return java


def locate_java() -> Path:
    """Returns the same ``java`` as :func:`find_java`, without running it.

    Raises:
        PreflightError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not java.is_file():
            raise PreflightError(f"JAVA_HOME is {home}, and {java} does not exist.", remedy=_REMEDY)
    else:
        on_path = shutil.which("java")
        if on_path is None:
            raise PreflightError("Java was not found: JAVA_HOME is not set and PATH has no java.", remedy=_REMEDY)
        java = Path(on_path)
    return java


def java_version(java: Path) -> int:
    """Returns the feature version of a ``java`` command: 17 for 17.0.15, 8 for 1.8.0.

    Raises:
        PreflightError: the command does not run or does not say its version.
    """
    try:
        result = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise PreflightError(f"{java} does not run: {error}.", remedy=_REMEDY) from error
    found = re.search(r'version "(\d+)(?:\.(\d+))?', result.stderr + result.stdout)
    if found is None:
        raise PreflightError(f"{java} does not say its version: {result.stderr.strip()!r}.", remedy=_REMEDY)
    first, second = int(found[1]), int(found[2] or 0)
    return second if first == 1 else first
