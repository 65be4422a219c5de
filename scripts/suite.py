"""The parts of the test suite: what each runs, when, and with how many workers."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

_PYTEST = ("-m", "pytest", "-q")
_CORES = max(2, os.cpu_count() or 2)
_BY_FILE = ("--dist", "loadfile")
_COMPUTING = ("-n", str(_CORES), "--dist", "worksteal")
"""Tests that compute: one worker a core. Some take a hundred times as long as others and stand one behind the other: a
worker that has nothing left takes some of another's."""
_WAITING = ("-n", str(_CORES + 2), *_BY_FILE, "--no-loadscope-reorder")
"""Tests that start processes wait for half of their time: two workers more than cores keep these busy. Files go to
workers as they were collected, see ``tests/longest_first.py``."""
_WAITING_MORE = ("-n", str(_CORES + 3), *_WAITING[2:])
"""Unit tests wait for more of it, and what they start is small: three workers more than cores."""
_TWO = ("-n", "2", *_BY_FILE, "--no-loadscope-reorder")
"""Tests that wait nearly always, and share a world by file: two worlds, whatever the cores."""
_DISTRIBUTION = {*_COMPUTING, *_WAITING, *_WAITING_MORE, *_TWO}
_BESIDE = "not long and not alone"


@dataclass(frozen=True)
class Part:
    """A part of the suite.

    Args:
        name: how it is asked for.
        what: what it is.
        directory: where its tests are; none where it is no pytest run.
        command: arguments of the interpreter, without the directory.
        select: pytest's marker expression.
        reason: why it runs only where ``full`` or its name is asked for; empty where it always runs.
        first: whether nothing runs beside it yet: its tests have limits of seconds, and no second attempt.
        beside_others: whether it leaves cores to others, since it waits or does one thing after the other, so that it
            runs while they do; what it writes is shown when it has ended.
        alone: whether it begins only once nothing else runs.
    """

    name: str
    what: str
    directory: str | None
    command: tuple[str, ...]
    select: str = ""
    reason: str = ""
    first: bool = False
    beside_others: bool = False
    alone: bool = False

    def line(self, *, again: bool = False) -> list[str]:
        """The whole command line.

        Args:
            again: of the second attempt: the tests that failed and that kill, one after the other.
        """
        command = [sys.executable, *self.command]
        if self.directory is None:
            return command
        select = self.select
        if again:
            command = [argument for argument in command if argument not in _DISTRIBUTION]
            command.append("--last-failed")
            select = f"({select}) and kills" if select else "kills"
        # Parts that run at the same time must not overwrite each other's failures.
        cache = ROOT / ".pytest_cache" / self.name
        command += ["-o", f"cache_dir={cache}", f"--junitxml={self.report(again=again)}"]
        return [*command, *(["-m", select] if select else []), self.directory]

    def report(self, *, again: bool = False) -> Path:
        """Where pytest writes its results."""
        return ROOT / ".pytest_cache" / f"{self.name}{'-again' if again else ''}.xml"

    def exists(self) -> bool:
        """Whether there is anything to run."""
        return self.directory is None or any((ROOT / self.directory).rglob("test_*.py"))


def parts() -> list[Part]:
    """All parts, in the order in which they run: what fails fast comes first."""
    smoke = ("-m", "tests.bench.run", "--workload", "W2", "--records", "20000", "--keys", "100")
    soak = ("-m", "tests.soak.run", "--minutes", "30")
    return [
        Part("check", "ruff, mypy, import-linter, dependencies", None, ("scripts/check.py",), first=True),
        Part("unit", "no broker, no JVM", "tests/unit", (*_PYTEST, "--timeout=300", *_WAITING_MORE), first=True),
        Part("parity", "against Kafka Streams' own test driver", "tests/parity", (*_PYTEST, *_COMPUTING)),
        Part(
            "integration",
            "real broker, real Spark",
            "tests/integration",
            (*_PYTEST, *_WAITING),
            select=_BESIDE,
        ),
        Part("chaos", "kill -9 everywhere", "tests/chaos", _PYTEST, select=_BESIDE, beside_others=True),
        Part(
            "airflow",
            "real Airflow, real supervision, real browser",
            "tests/airflow",
            (*_PYTEST, *_TWO),
            select=_BESIDE,
            beside_others=True,
        ),
        Part("bench-smoke", "the benchmark's machinery, tiny", None, smoke, beside_others=True),
        Part(
            "alone",
            "predicted times, the whole platform: nothing beside them",
            "tests",
            _PYTEST,
            select="alone and not long",
            alone=True,
        ),
        Part(
            "long",
            "drills, upgrades, resets, restorations at every step",
            "tests",
            _PYTEST,
            select="long",
            reason="tests of minutes that have a cheaper sibling in the default, each with its reason",
            alone=True,
        ),
        Part(
            "soak",
            "half an hour of kills, savepoints, restorations and resets at random, and a checker",
            None,
            soak,
            reason="the chaos part runs three minutes of it",
            alone=True,
        ),
    ]
