"""``make test``: runs the parts of the test suite, says which, and how each one ended."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
_PYTEST = ("-m", "pytest", "-q", "--durations=5")
_BESIDE = ("-m", "not long and not alone")
_WORKERS = ("-n", str(max(2, os.cpu_count() or 2)))
_BY_FILE = (*_WORKERS, "--dist", "loadfile")
_IN_THEIR_ORDER = (*_BY_FILE, "--no-loadscope-reorder", *_BESIDE)
"""Files go to workers as they were collected, see ``tests/integration/conftest.py``."""
TESTS_FAILED = 1
"""pytest's exit code when tests ran and some failed; other codes mean that something else went wrong."""


@dataclass(frozen=True)
class Part:
    """A part of the suite.

    Args:
        name: how it is asked for.
        what: what it is.
        directory: where its tests are; none where it is no pytest run.
        command: arguments of the interpreter, without the directory.
        second_attempt: whether tests that failed run once more, alone: processes that are killed and brokers that
            restart depend on how busy the machine is. A second attempt is always shown.
        on_request: whether it runs only where it is asked for by name.
        beside_others: whether it waits more than it computes, so that it runs while the others do; what it writes is
            shown when it has ended.
        alone: whether it begins only once nothing else runs.
    """

    name: str
    what: str
    directory: str | None
    command: tuple[str, ...]
    second_attempt: bool = False
    on_request: bool = False
    beside_others: bool = False
    alone: bool = False

    def line(self) -> list[str]:
        """The whole command line. Parts that run at the same time must not forget each other's failures."""
        cache = ROOT / ".pytest_cache" / self.name
        tests = ["-o", f"cache_dir={cache}", self.directory] if self.directory else []
        return [sys.executable, *self.command, *tests]

    def exists(self) -> bool:
        """Whether there is anything to run."""
        return self.directory is None or any((ROOT / self.directory).rglob("test_*.py"))


def parts() -> list[Part]:
    """All parts, in the order in which they run: what fails fast comes first."""
    ordered = (*_PYTEST, *_IN_THEIR_ORDER)
    long = (*_PYTEST, "-m", "long", "tests/integration/savepoints", "tests/chaos/test_sleeping_drivers.py")
    bench = ("-m", "tests.bench.run", "--workload", "W2", "--records", "20000", "--keys", "100")
    return [
        Part("check", "ruff, mypy, import-linter", None, ("scripts/check.py",)),
        Part("unit", "no broker, no JVM", "tests/unit", (*_PYTEST, *_BY_FILE)),
        Part("parity", "against Kafka Streams' own test driver", "tests/parity", (*_PYTEST, *_WORKERS)),
        Part("integration", "real broker, real Spark", "tests/integration", ordered, second_attempt=True),
        Part("chaos", "kill -9 everywhere", "tests/chaos", (*_PYTEST, *_BESIDE), second_attempt=True),
        Part(
            "airflow",
            "real Airflow, real supervision, real browser",
            "tests/airflow",
            (*_PYTEST, *_BESIDE),
            second_attempt=True,
            beside_others=True,
        ),
        Part("bench-smoke", "the benchmark's machinery, tiny", None, bench),
        Part(
            "alone",
            "predicted times, the whole platform: nothing beside them",
            "tests/integration",
            (*_PYTEST, "-m", "alone", "tests/airflow"),
            second_attempt=True,
            alone=True,
        ),
        Part(
            "long",
            "drills, upgrades: minutes each",
            "tests/chaos/drills",
            long,
            second_attempt=True,
            on_request=True,
            alone=True,
        ),
    ]


@dataclass(frozen=True)
class Running:
    """A part that has begun.

    Args:
        part: it.
        process: its process.
        output: what takes its output; none where that is shown as it comes.
        begin: when it began, by the monotonic clock.
    """

    part: Part
    process: subprocess.Popen[bytes]
    output: IO[bytes] | None
    begin: float

    def finish(self) -> tuple[str, float]:
        """Waits for its end; how it ended, and seconds."""
        part, code = self.part, self.process.wait()
        if self.output is not None:
            say(f"\n=== {part.name}, which ran beside the others ===")
            self.output.seek(0)
            shutil.copyfileobj(self.output, sys.stdout.buffer)
            sys.stdout.flush()
        outcome = "passed" if code == 0 else f"FAILED (exit code {code})"
        if code == TESTS_FAILED and part.second_attempt:
            say(f"\n--- {part.name}: the tests that failed, once more ---")
            again = [argument for argument in part.line() if argument not in _BY_FILE]
            code = subprocess.run([*again, "--last-failed"], cwd=ROOT, check=False).returncode
            outcome = "passed at the second attempt" if code == 0 else f"FAILED twice (exit code {code})"
        return outcome, time.monotonic() - self.begin


def start(part: Part, *, shown: bool = True) -> Running:
    """Begins a part."""
    output = None if shown else tempfile.TemporaryFile()  # noqa: SIM115 - it is open as long as the part runs
    process = subprocess.Popen(part.line(), cwd=ROOT, stdout=output, stderr=output and subprocess.STDOUT)
    return Running(part, process, output, time.monotonic())


def say(text: str) -> None:
    """A line for the reader, in order with what the parts write."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: list[str] | None = None) -> int:
    """Runs what was asked for, by default all that needs no request; 0 only if every part passed."""
    known = {part.name: part for part in parts()}
    parser = argparse.ArgumentParser(prog="make test", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(known))
    names: list[str] = parser.parse_args(arguments).parts or [
        part.name for part in known.values() if not part.on_request
    ]
    if unknown := [name for name in names if name not in known]:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(known)}")
    chosen = [known[name] for name in names]
    say("parts: " + ", ".join(f"{part.name} ({part.what})" for part in chosen))
    if left_out := [name for name in known if name not in names]:
        say(f'left out: {", ".join(left_out)} (make test PARTS="{" ".join(left_out)}")')
    results: list[tuple[Part, str, float]] = []
    beside = [start(part, shown=False) for part in chosen if part.beside_others and len(chosen) > 1]
    try:
        for number, part in enumerate(chosen, start=1):
            if part.alone:
                results += [(running.part, *running.finish()) for running in beside]
                beside.clear()
            if not part.exists():
                results.append((part, f"no tests in {part.directory}", 0.0))
            elif not part.beside_others or len(chosen) == 1:
                say(f"\n=== {number}/{len(chosen)} {part.name}: {part.what} ===")
                results.append((part, *start(part).finish()))
        results += [(running.part, *running.finish()) for running in beside]
    finally:
        for running in beside:
            if running.process.poll() is None:
                # pytest ends what its tests started when it is interrupted.
                running.process.send_signal(signal.SIGINT)
                running.process.wait()
    say("\n" + "\n".join(f"{part.name:12} {outcome:30} {seconds:7.1f} s" for part, outcome, seconds in results))
    return int(any("FAILED" in outcome for _, outcome, _ in results))


if __name__ == "__main__":
    sys.exit(main())
