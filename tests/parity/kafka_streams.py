"""Kafka Streams' own test driver: one JVM that answers scenarios, one a line."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from millrace.errors import PreflightError
from millrace.home import millrace_home
from millrace.kafka.jars import STREAMS_JARS, class_path, resolve_jars
from millrace.kafka.java import QUICK_TO_START, find_java

_SOURCES = tuple(Path(__file__).parent / "java" / name for name in ("RunScenarios.java", "InternalTopics.java"))
_SHARED_MEMORY = Path("/dev/shm")
_COMPILE_LIMIT_S = 120


class KafkaStreams:
    """The test driver in a JVM of its own; compiled before the first scenario where its source has changed.

    Errors of a scenario are results: ``{"error": text}``.
    """

    def __init__(self) -> None:
        jars = resolve_jars(STREAMS_JARS)
        self._stderr = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 - closed by close()
        state = ["-Djava.io.tmpdir=" + str(_SHARED_MEMORY)] if _SHARED_MEMORY.is_dir() else []
        command = [str(find_java()), *QUICK_TO_START, "-Xmx512m", *state]
        self._process = subprocess.Popen(
            [*command, "-cp", f"{_compiled(jars)}:{class_path(jars)}", "RunScenarios"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def submit(self, scenario: dict[str, Any]) -> Callable[[], dict[str, Any]]:
        """Sends a scenario. What is returned waits for its result, and must be called before the next ``submit``."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(scenario) + "\n")
        self._process.stdin.flush()
        return self._receive

    def run(self, scenario: dict[str, Any]) -> dict[str, Any]:
        """The result of a scenario."""
        return self.submit(scenario)()

    def close(self) -> None:
        """Ends the JVM. May be called more than once."""
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(timeout=30)
        self._stderr.close()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(timeout=30)
            self._stderr.seek(0)
            raise AssertionError(f"the JVM of Kafka Streams ended:\n{self._stderr.read()[-3000:]}")
        result: dict[str, Any] = json.loads(line)
        return result


def _compiled(jars: tuple[Path, ...]) -> Path:
    """Directory with the compiled harness, compiled anew when a source or a library has changed."""
    fingerprint = hashlib.sha256(b"".join(source.read_bytes() for source in _SOURCES))
    for jar in jars:
        fingerprint.update(jar.name.encode())
    target = millrace_home() / "parity" / f"classes-{fingerprint.hexdigest()[:16]}"
    if target.is_dir():
        return target
    javac = find_java().resolve().with_name("javac")
    if not javac.is_file():
        raise PreflightError(
            f"{javac.parent} has no compiler, and the parity tests compile a Java program.",
            remedy="install a JDK (Debian, Ubuntu: apt-get install openjdk-17-jdk-headless)",
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="classes-", dir=target.parent))
    try:
        command = [str(javac), "-nowarn", "-cp", class_path(jars), "-d", str(scratch), *map(str, _SOURCES)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_LIMIT_S, check=False)
        if done.returncode != 0:
            raise AssertionError(f"the harness does not compile:\n{done.stderr}")
        if not target.is_dir():  # another worker may have been faster
            scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target
