"""A real PostgreSQL for one test module: its own directory, a free port, gone afterwards."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

_START_LIMIT_S = 60.0
_DEBIAN = Path("/usr/lib/postgresql")
_ACCOUNT = "postgres"


def server_programs() -> Path:
    """The directory of ``initdb`` and ``postgres``.

    Raises:
        RuntimeError: they are not installed.
    """
    if (found := shutil.which("initdb")) is not None:
        return Path(found).resolve().parent
    versions = sorted(_DEBIAN.glob("*/bin/initdb"), key=lambda path: float(path.parents[1].name))
    if not versions:
        raise RuntimeError(
            "PostgreSQL's server programs were not found. Remedy: install them (Debian, Ubuntu: postgresql)"
        )
    return versions[-1].parent


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _account() -> Mapping[str, Any]:
    """PostgreSQL refuses to run as root."""
    return {"user": _ACCOUNT, "group": _ACCOUNT, "extra_groups": []} if os.getuid() == 0 else {}


@contextmanager
def running_postgres() -> Iterator[str]:
    """A server that trusts local connections; gives its connection string."""
    programs = server_programs()
    directory = Path(tempfile.mkdtemp(prefix="millrace-postgres-"))
    port = _free_port()
    if os.getuid() == 0:
        shutil.chown(directory, _ACCOUNT, _ACCOUNT)
    initialise: list[str | Path] = [
        programs / "initdb",
        "-D",
        directory / "data",
        "-U",
        "shop",
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
    address = f"host=127.0.0.1 port={port} user=shop dbname=postgres"
    try:
        _wait_until_it_answers(address, server, directory / "log")
        yield address
    finally:
        server.terminate()
        server.wait(30)
        shutil.rmtree(directory)


def _wait_until_it_answers(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_LIMIT_S
    while True:
        try:
            psycopg.connect(address, connect_timeout=5).close()
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text(errors='replace')}") from None
            time.sleep(0.05)
        else:
            return
