"""A real schema registry for tests: Apicurio, in memory, which speaks Confluent's API as well."""

from __future__ import annotations

import re
import signal
import subprocess
import tarfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from millrace.kafka.jars import JarSet, resolve_jars
from millrace.kafka.java import find_java
from tests.waiting import PATIENCE

VERSION = "2.6.13.Final"
ARCHIVE = JarSet(
    name=f"apicurio-registry-{VERSION}", coordinates=(f"io.apicurio:apicurio-registry-app:{VERSION}:all@tar.gz",)
)
_RUNNER = f"apicurio-registry-app-{VERSION}-runner.jar"
_LISTENING = re.compile(r"Listening on: (http://\S+)")
_START_LIMIT_S = 120


class SchemaRegistryProcess:
    """The registry as a process of its own on a free port of the loopback; empty at the start.

    Args:
        directory: where it is unpacked and logs.
    """

    def __init__(self, directory: Path) -> None:
        self._log = directory / "registry.log"
        (archive,) = resolve_jars(ARCHIVE)
        with tarfile.open(archive) as packed:
            packed.extractall(directory, filter="data")
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [
                    str(find_java()),
                    "-Xmx256m",
                    "-XX:TieredStopAtLevel=1",
                    "-Dquarkus.http.host=127.0.0.1",
                    "-Dquarkus.http.port=0",
                    "-jar",
                    _RUNNER,
                ],
                cwd=directory,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            self.url = f"{self._address()}/apis/ccompat/v7"
        except BaseException:
            self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """From now on it takes connections, and answers nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """It answers again."""
        self._process.send_signal(signal.SIGCONT)

    def _address(self) -> str:
        deadline = time.monotonic() + _START_LIMIT_S * PATIENCE
        while True:
            text = self._log.read_text()
            found = _LISTENING.search(text)
            if found is not None:
                return found[1]
            assert self._process.poll() is None, f"the registry ended: {text[-2000:]}"
            assert time.monotonic() < deadline, f"the registry did not start: {text[-2000:]}"
            time.sleep(0.1)
