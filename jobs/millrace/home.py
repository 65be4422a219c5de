"""The directory of an installation, ``MILLRACE_HOME``, and the project that a command is about."""

from __future__ import annotations

import os
from pathlib import Path

HOME_VARIABLE = "MILLRACE_HOME"
SPECIFICATIONS = Path("config", "apps")
"""Where a project has the specifications of its applications."""


def project_directory() -> Path:
    """Finds the project whose applications a command is about.

    Returns:
        The checkout that this module belongs to. Where it is installed from a wheel: the working directory or the
        nearest one above it that has ``config/apps``, else the working directory. Absolute.
    """
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file() and (checkout / "jobs" / "millrace").is_dir():
        return checkout
    working = Path.cwd()
    return next((each for each in (working, *working.parents) if (each / SPECIFICATIONS).is_dir()), working)


def millrace_home() -> Path:
    """Returns the directory of this installation: jars, the embedded broker, records of running applications.

    Returns:
        ``$MILLRACE_HOME`` where it is set, else ``.millrace`` in the :func:`project_directory`. Absolute; it need not
        exist yet.
    """
    configured = os.environ.get(HOME_VARIABLE)
    return Path(configured).expanduser().absolute() if configured else project_directory() / ".millrace"
