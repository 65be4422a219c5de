"""Where Prometheus finds a driver: a file for its file-based service discovery, kept as the driver comes and goes.

A driver takes a free port by default and another one at every start, so nothing but its control file knows the address.
Everybody who probes of an application (deploy's wait for it, a supervising task, a reconcile, a stop) brings the file
up to date, within the time between two probes.
"""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

import orjson

from millrace.install.files import write_json
from millrace.install.home import ApplicationDirectory, Home
from millrace.install.launchers.instance import ControlPlane

_EVERY_ADDRESS = {"0.0.0.0", "::"}


def update_scrape_target(directory: ApplicationDirectory, control: ControlPlane | None, *, is_stopped: bool) -> None:
    """Write the address of a driver that lives, remove that of one that was stopped.

    The address of a driver that died stays: a scrape that fails is how Prometheus learns of it.

    Args:
        directory: the application's directory.
        control: how the driver is asked; none where that is not known.
        is_stopped: whether it is stopped as planned, or was never deployed.
    """
    path = Home.at(directory.path.parents[1]).scrape_target(directory.application)
    if is_stopped:
        path.unlink(missing_ok=True)
        return
    if control is None:
        return
    content = [{"targets": [_target(control.address)], "labels": {"application_id": directory.application}}]
    if _read(path) != content:
        write_json(path, content)


def remove_scrape_targets_of_others(home: Home) -> tuple[str, ...]:
    """Remove the files of applications that are not deployed here any more.

    Returns:
        Names of those applications.
    """
    deployed = set(home.deployed())
    gone = [path for path in home.scrape_target("*").parent.glob("*.json") if path.stem not in deployed]
    for path in gone:
        path.unlink(missing_ok=True)
    return tuple(sorted(path.stem for path in gone))


def _target(address: str) -> str:
    parts = urlsplit(address)
    host = parts.hostname or ""
    if host in _EVERY_ADDRESS:
        host = socket.gethostname()
    return f"[{host}]:{parts.port}" if ":" in host else f"{host}:{parts.port}"


def _read(path: Path) -> object:
    try:
        return orjson.loads(path.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return None
