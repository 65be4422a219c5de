"""Where an installation keeps its files: ``MILLRACE_HOME``."""

from __future__ import annotations

import os
from pathlib import Path

HOME_VARIABLE = "MILLRACE_HOME"


def millrace_home() -> Path:
    """Directory of this installation: jars, the embedded broker, records of running applications.

    Returns:
        ``$MILLRACE_HOME`` where it is set, else ``.millrace`` in the checkout that this module belongs to, else
        ``.millrace`` in the working directory. Absolute; it need not exist yet.
    """
    configured = os.environ.get(HOME_VARIABLE)
    if configured:
        return Path(configured).expanduser().absolute()
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file() and (checkout / "jobs" / "millrace").is_dir():
        return checkout / ".millrace"
    return Path.cwd() / ".millrace"
