"""``make test``: runs the parts of the test suite, says which, and how each one ended."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_PYTEST = ("-m", "pytest", "-q", "--durations=5")


@dataclass(frozen=True)
class Part:
    """A part of the suite.

    Args:
        name: how it is asked for.
        what: what it is.
        directory: where its tests are; none where it is no pytest run.
        command: arguments of the interpreter, without the directory.
    """

    name: str
    what: str
    directory: str | None
    command: tuple[str, ...]

    def line(self) -> list[str]:
        """The whole command line."""
        return [sys.executable, *self.command, *([self.directory] if self.directory else [])]

    def exists(self) -> bool:
        """Whether there is anything to run."""
        return self.directory is None or any((ROOT / self.directory).rglob("test_*.py"))


def parts() -> list[Part]:
    """All parts, in the order in which they run: what fails fast comes first."""
    workers = str(max(2, os.cpu_count() or 2))
    many = (*_PYTEST, "-n", workers, "--dist", "loadfile")
    bench = ("-m", "tests.bench.run", "--workload", "W2", "--records", "20000", "--keys", "100")
    return [
        Part("check", "ruff, mypy, import-linter", None, ("scripts/check.py",)),
        Part("unit", "no broker, no JVM", "tests/unit", many),
        Part("parity", "against Kafka Streams' own test driver", "tests/parity", _PYTEST),
        Part("integration", "real broker, real Spark", "tests/integration", many),
        Part("chaos", "kill -9 everywhere", "tests/chaos", _PYTEST),
        Part("airflow", "real Airflow, real supervision", "tests/airflow", _PYTEST),
        Part("bench-smoke", "the benchmark's machinery, tiny", None, bench),
    ]


def run(part: Part) -> tuple[int, float]:
    """Runs a part; exit code and seconds."""
    begin = time.monotonic()
    code = subprocess.run(part.line(), cwd=ROOT, check=False).returncode
    return code, time.monotonic() - begin


def say(text: str) -> None:
    """A line for the reader, in order with what the parts write."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: list[str] | None = None) -> int:
    """Runs what was asked for, all by default; 0 only if every part passed."""
    known = {part.name: part for part in parts()}
    parser = argparse.ArgumentParser(prog="make test", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(known))
    names: list[str] = parser.parse_args(arguments).parts or list(known)
    if unknown := [name for name in names if name not in known]:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(known)}")
    chosen = [known[name] for name in names]
    say("parts: " + ", ".join(f"{part.name} ({part.what})" for part in chosen))
    results: list[tuple[Part, str, float]] = []
    for number, part in enumerate(chosen, start=1):
        if not part.exists():
            results.append((part, f"no tests in {part.directory}", 0.0))
            continue
        say(f"\n=== {number}/{len(chosen)} {part.name}: {part.what} ===")
        code, seconds = run(part)
        results.append((part, "passed" if code == 0 else f"FAILED (exit code {code})", seconds))
    say("\n" + "\n".join(f"{part.name:12} {outcome:24} {seconds:7.1f} s" for part, outcome, seconds in results))
    return int(any("FAILED" in outcome for _, outcome, _ in results))


if __name__ == "__main__":
    sys.exit(main())
