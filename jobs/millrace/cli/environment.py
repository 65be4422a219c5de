"""What a command finds around it: the installation, its broker, and specifications that refer to both."""

from __future__ import annotations

import os
from pathlib import Path

from millrace.errors import ConfigurationError
from millrace.home import HOME_VARIABLE, millrace_home

BOOTSTRAP_VARIABLE = "MILLRACE_BOOTSTRAP_SERVERS"


def fill_in_environment() -> None:
    """Sets the variables that specifications refer to, where the caller did not set them.

    ``MILLRACE_HOME`` is the installation, ``MILLRACE_BOOTSTRAP_SERVERS`` the embedded broker of it, if that runs.
    """
    os.environ.setdefault(HOME_VARIABLE, str(millrace_home()))
    if not os.environ.get(BOOTSTRAP_VARIABLE) and (address := embedded_broker()):
        os.environ[BOOTSTRAP_VARIABLE] = address


def embedded_broker() -> str:
    """Address of this installation's broker; empty if it does not run."""
    from millrace.kafka.broker_record import read_record

    record = read_record(millrace_home() / "broker")
    return record[1] if record is not None and record[0].is_alive() else ""


def bootstrap_servers(given: str | None) -> str:
    """The broker to talk to: the one that was named, the variable's, or the embedded one.

    Raises:
        ConfigurationError: there is none of them.
    """
    found = given or os.environ.get(BOOTSTRAP_VARIABLE) or embedded_broker()
    if not found:
        raise ConfigurationError(
            "No broker was named, and the embedded one does not run.",
            remedy=f"give --bootstrap-servers, set {BOOTSTRAP_VARIABLE}, or start one with `millrace broker start`",
        )
    return found


def spec_path(target: str) -> Path:
    """The file of a specification that was named by its path or by the application's name."""
    from millrace.ops.home import Home

    path = Path(target)
    if path.suffix in {".yaml", ".yml"} or path.exists():
        return path
    return Home.from_environment().spec_path(target)
