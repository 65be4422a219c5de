"""A real PostgreSQL for a while: its own directory, a free port, gone afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from millrace.embedded.broker import free_ports
from millrace.errors import OperationError, PreflightError

_START_LIMIT_S = 300.0
_DEBIAN = Path("/usr/lib/postgresql")
_ACCOUNT = "postgres"


def server_programs() -> Path:
    """The directory of ``initdb`` and ``postgres``.

    Raises:
        PreflightError: they are not installed.
    """
    if (found := shutil.which("initdb")) is not None:
        return Path(found).resolve().parent
    versions = sorted(_DEBIAN.glob("*/bin/initdb"), key=lambda path: float(path.parents[1].name))
    if not versions:
        raise PreflightError(
            "PostgreSQL's server programs were not found.", remedy="install them (Debian, Ubuntu: postgresql)"
        )
    return versions[-1].parent


def _account() -> Mapping[str, Any]:
    """PostgreSQL refuses to run as root."""
    return {"user": _ACCOUNT, "group": _ACCOUNT, "extra_groups": []} if os.getuid() == 0 else {}


@contextmanager
def running_postgres(*, account: str = "shop") -> Iterator[str]:
    """A server that trusts local connections; gives the connection string of its superuser ``account``."""
    programs = server_programs()
    directory = Path(tempfile.mkdtemp(prefix="millrace-postgres-"))
    (port,) = free_ports(1)
    if os.getuid() == 0:
        shutil.chown(directory, _ACCOUNT, _ACCOUNT)
    initialise: list[str | Path] = [
        programs / "initdb",
        "-D",
        directory / "data",
        "-U",
        account,
        "-A",
        "trust",
        "--no-sync",
    ]
    subprocess.run(initialise, check=True, stdout=subprocess.DEVNULL, cwd=directory, **_account())
    serve: list[str | Path] = [
        programs / "postgres",
        "-D",
        directory / "data",
        "-p",
        str(port),
        "-k",
        directory,
        "-h",
        "127.0.0.1",
    ]
    with (directory / "log").open("wb") as log:
        server: subprocess.Popen[bytes] = subprocess.Popen(
            [*serve, "-F"], stdout=log, stderr=log, cwd=directory, **_account()
        )
    address = f"host=127.0.0.1 port={port} user={account} dbname=postgres"
    try:
        _wait_until_it_answers(address, server, directory / "log")
        yield address
    finally:
        # Fast: whoever is connected still is disconnected.
        server.send_signal(signal.SIGINT)
        server.wait(30)
        shutil.rmtree(directory)


def _wait_until_it_answers(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_LIMIT_S
    while True:
        try:
            psycopg.connect(address, connect_timeout=5).close()
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                said = log.read_text(errors="replace").strip()[-500:]
                raise OperationError(f"PostgreSQL did not start: {said}", remedy="check the disk and memory") from None
            time.sleep(0.05)
        else:
            return
