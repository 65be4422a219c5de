"""Runs the query server of an application as its users do: a process, and the Python client."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from millrace.driver.control_file import ControlFile, read_token
from millrace.queries import QueryClient
from millrace.queries.run import CONTROL_FILE
from tests.application import ROOT, Application, wait_until


class QueryServerProcess:
    """``millrace query-server`` of a test's application.

    Args:
        application: whose state it reads; its specification must have been written.
        freshness_ms: as the option.
        address: as the option.
        nice: as the option.
        host_name: as the option; ``None`` leaves it out.
        peers: as the option.
        run_directory: as the option; ``None`` takes the application's.
        token_file: as the option; ``None`` leaves it out.
    """

    def __init__(
        self,
        application: Application,
        *,
        freshness_ms: int = 100,
        address: str = "127.0.0.1:0",
        nice: int = 0,
        host_name: str | None = None,
        peers: Mapping[str, str] | None = None,
        run_directory: Path | None = None,
        token_file: Path | None = None,
    ) -> None:
        self._directory = run_directory or application.run_directory
        command = [sys.executable, "-m", "millrace", "query-server", str(application.write_specification())]
        command += ["--run-directory", str(self._directory), "--freshness-ms", str(freshness_ms)]
        command += [
            "--address",
            address,
            "--nice",
            str(nice),
            *(("--host-name", host_name) if host_name is not None else ()),
        ]
        command += ["--token-file", str(token_file)] if token_file is not None else []
        command += [part for host, url in (peers or {}).items() for part in ("--peer", f"{host}={url}")]
        self.log = application.directory / f"query-server-{host_name or 'here'}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT, env={**os.environ, **application.environment}
            )
        self.control: ControlFile = wait_until(self._read_control, timeout_s=90, what="the query server's address")

    def client(self, **options: float) -> QueryClient:
        """A client; it waits for the server at its first request."""
        return QueryClient(self.control.address, self.token, timeout_s=60, **options)

    @property
    def token(self) -> str:
        """The token of its requests."""
        return read_token(Path(self.control.token_file))

    def stop(self) -> int:
        """The exit code after SIGTERM."""
        self.process.terminate()
        return self.process.wait(30)

    def close(self) -> None:
        """Ends it, if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)

    def _read_control(self) -> ControlFile | None:
        assert self.process.poll() is None, self.log.read_text()
        path = self._directory / CONTROL_FILE
        control = ControlFile.read(path) if path.exists() else None
        return control if control is not None and control.pid == self.process.pid else None
