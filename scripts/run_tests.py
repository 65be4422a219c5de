"""``make test``: run the parts of the test suite, and report how each one ended, what took long, what ran twice."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
LIST, FULL = "list", "full"
TESTS_FAILED = 1
"""pytest's exit code when tests ran and some failed; other codes mean that something else went wrong."""

SLOWEST = 10
_MEMORY, _MEMORY_NEEDED = Path("/dev/shm"), 8 << 30
"""Linux's file system in memory, and how many bytes of it have to be free; a run takes about 2 GiB."""

_PYTEST = ("-m", "pytest", "-q")
_CORES = max(2, os.cpu_count() or 2)
_WORKERS = ("-n", str(_CORES))
_BY_FILE = ("--dist", "loadfile")
_WAITING_WORKERS = ("-n", str(_CORES + 1))
"""Tests that start processes wait for them a quarter of their time: one worker more than cores keeps these busy."""
_IN_THEIR_ORDER = (*_WAITING_WORKERS, *_BY_FILE, "--no-loadscope-reorder")
"""Files go to workers as they were collected, see ``tests/integration/conftest.py``."""
_DISTRIBUTION = {*_WAITING_WORKERS, *_WORKERS, *_IN_THEIR_ORDER}
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
        beside_others: whether it waits more than it computes, so that it runs while the others do; what it writes is
            shown when it has ended.
        alone: whether it begins only once nothing else runs.
    """

    name: str
    what: str
    directory: str | None
    command: tuple[str, ...]
    select: str = ""
    reason: str = ""
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
        Part("check", "ruff, mypy, import-linter", None, ("scripts/check.py",)),
        Part("unit", "no broker, no JVM", "tests/unit", (*_PYTEST, *_WORKERS, *_BY_FILE)),
        Part("parity", "against Kafka Streams' own test driver", "tests/parity", (*_PYTEST, *_WORKERS)),
        Part(
            "integration",
            "real broker, real Spark",
            "tests/integration",
            (*_PYTEST, *_IN_THEIR_ORDER),
            select=_BESIDE,
        ),
        Part("chaos", "kill -9 everywhere", "tests/chaos", _PYTEST, select=_BESIDE, beside_others=True),
        Part(
            "airflow",
            "real Airflow, real supervision, real browser",
            "tests/airflow",
            _PYTEST,
            select=_BESIDE,
            beside_others=True,
        ),
        Part("bench-smoke", "the benchmark's machinery, tiny", None, smoke),
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


@dataclass(frozen=True)
class ReportedTest:
    """A test of a report.

    Args:
        name: file and name.
        seconds: of all its phases, fixtures included.
        failed: whether it failed, or a fixture of it.
    """

    name: str
    seconds: float
    failed: bool


def read_report(path: Path) -> list[ReportedTest]:
    """The tests of a report of pytest; none where there is no report.

    A test whose body and whose teardown fail has two entries; it is one test here.
    """
    found: dict[str, ReportedTest] = {}
    for case in ElementTree.parse(path).iter("testcase") if path.exists() else ():
        name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        failed = case.find("failure") is not None or case.find("error") is not None
        before = found.get(name, ReportedTest(name, 0.0, failed=False))
        found[name] = ReportedTest(name, before.seconds + float(case.get("time", 0)), before.failed or failed)
    return list(found.values())


@dataclass(frozen=True)
class Result:
    """How a part ended.

    Args:
        part: it.
        outcome: in words.
        seconds: how long it took, a second attempt included.
        ok: whether everything in it passed.
        twice: tests that passed at their second attempt only.
    """

    part: Part
    outcome: str
    seconds: float
    ok: bool
    twice: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ended:
    """A part whose process has ended.

    Args:
        part: it.
        code: its exit code.
        seconds: how long it took.
        output: what it wrote; none where that was shown as it came.
    """

    part: Part
    code: int
    seconds: float
    output: IO[bytes] | None = None

    def result(self) -> Result:
        """How it ended, with the second attempt of those of its tests that may have one."""
        part, begin = self.part, time.monotonic()
        if self.output is not None:
            say(f"\n=== {part.name}, which ran beside the others ===")
            self.output.seek(0)
            shutil.copyfileobj(self.output, sys.stdout.buffer)
            sys.stdout.flush()
        twice: tuple[str, ...] = ()
        outcome, ok = ("passed", True) if self.code == 0 else (f"FAILED (exit code {self.code})", False)
        if self.code == TESTS_FAILED and part.directory:
            twice = second_attempt(part)
            if twice:
                outcome, ok = f"passed, {len(twice)} of its tests at the second attempt", True
        return Result(part, outcome, self.seconds + time.monotonic() - begin, ok, twice)


class BesideOthers:
    """Runs parts in the background, one after the other: two of them at once would keep each other waiting.

    Args:
        parts: which, in their order.
    """

    def __init__(self, parts: list[Part]) -> None:
        self._parts = parts
        self._ended: list[Ended] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="beside-others", daemon=True)

    def start(self) -> None:
        """Begin with the first part."""
        self._thread.start()

    def finish(self) -> list[Result]:
        """Wait for the last part; a second call has nothing to add."""
        self._thread.join()
        ended, self._ended = self._ended, []
        return [each.result() for each in ended]

    def stop(self) -> None:
        """Interrupt the part that runs, which ends what its tests started, and begin no other."""
        self._stopping.set()
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        self._thread.join()

    def _run(self) -> None:
        for part in self._parts:
            if self._stopping.is_set():
                return
            output, begin = tempfile.TemporaryFile(), time.monotonic()  # noqa: SIM115 - it is read after the part
            self._process = start(part, output)
            self._ended.append(Ended(part, self._process.wait(), time.monotonic() - begin, output))


def second_attempt(part: Part) -> tuple[str, ...]:
    """Run those tests once more that failed and that kill processes, alone.

    Returns:
        The tests that failed, where each of them may have a second attempt and passed it; else none.
    """
    failed = {test.name for test in read_report(part.report()) if test.failed}
    say(f"\n--- {part.name}: those of {len(failed)} failed tests that kill processes, once more ---")
    part.report(again=True).unlink(missing_ok=True)
    subprocess.run(part.line(again=True), cwd=ROOT, check=False)
    passed = {test.name for test in read_report(part.report(again=True)) if not test.failed}
    return tuple(sorted(failed)) if failed <= passed else ()


def start(part: Part, output: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
    """Begin a part; what it writes is shown unless there is a file for it."""
    part.report().parent.mkdir(exist_ok=True)
    part.report().unlink(missing_ok=True)
    return subprocess.Popen(part.line(), cwd=ROOT, stdout=output, stderr=output and subprocess.STDOUT)


def run(chosen: list[Part]) -> list[Result]:
    """Run parts: those that wait beside the others, those that need the machine for themselves at the end."""
    results: list[Result] = []
    beside = BesideOthers([part for part in chosen if part.beside_others and len(chosen) > 1])
    beside.start()
    try:
        for number, part in enumerate(chosen, start=1):
            if part.alone:
                results += beside.finish()
            if not part.exists():
                results.append(Result(part, f"no tests in {part.directory}", 0.0, ok=True))
            elif not part.beside_others or len(chosen) == 1:
                say(f"\n=== {number}/{len(chosen)} {part.name}: {part.what} ===")
                begin = time.monotonic()
                code = start(part).wait()
                results.append(Ended(part, code, time.monotonic() - begin).result())
        results += beside.finish()
    finally:
        beside.stop()
    return results


@contextmanager
def scratch() -> Iterator[None]:
    """Let what runs meanwhile keep its temporary files in memory, where there is room: nobody waits for a disk then.

    Whatever a test kills are processes and not the machine, so what it finds again is the same.
    """
    if not _MEMORY.is_dir() or shutil.disk_usage(_MEMORY).free < _MEMORY_NEEDED:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="millrace-tests-", dir=_MEMORY, ignore_cleanup_errors=True) as directory:
        # PostgreSQL runs as a user of its own, in a directory of its own in it.
        Path(directory).chmod(0o711)
        before = os.environ.get("TMPDIR")
        os.environ["TMPDIR"] = directory
        try:
            yield
        finally:
            if before is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = before


def say(text: str) -> None:
    """Write a line for the reader, in order with what the parts write."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def show_list(known: list[Part]) -> None:
    """List what ``full`` runs and the default does not, with the reasons."""
    say(f"make test PARTS={FULL} also runs:")
    for part in known:
        if part.reason:
            say(f"\n{part.name}: {part.what}\n  ({part.reason})")
    say("")
    subprocess.run([sys.executable, "-m", "pytest", "--list-long", "tests"], cwd=ROOT, check=True)


def show_summary(results: list[Result], seconds: float) -> None:
    """Say how the parts ended, which tests were the slowest, and which had a second attempt."""
    tests = [test for result in results for test in read_report(result.part.report())]
    slowest = sorted(tests, key=lambda test: -test.seconds)[:SLOWEST]
    say("\nthe slowest tests:")
    for test in slowest:
        say(f"{test.seconds:7.1f} s  {test.name}")
    twice = [name for result in results for name in result.twice]
    say(f"\nat the second attempt only: {len(twice)}")
    for name in twice:
        say(f"  {name}")
    say("")
    for result in results:
        say(f"{result.part.name:12} {result.outcome:45} {result.seconds:7.1f} s")
    say(f"{'all':12} {'passed' if all(result.ok for result in results) else 'FAILED':45} {seconds:7.1f} s")


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for, by default all but what only ``full`` has; 0 only if every part passed."""
    known = {part.name: part for part in parts()}
    parser = argparse.ArgumentParser(prog="make test", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"{', '.join(known)}; {FULL}: all; {LIST}: what is in {FULL} only"
    )
    names: list[str] = parser.parse_args(arguments).parts
    if unknown := [name for name in names if name not in {*known, FULL, LIST}]:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(known)}, {FULL} and {LIST}")
    if LIST in names:
        show_list(list(known.values()))
        return 0
    chosen = [part for part in known.values() if FULL in names or part.name in names or not (names or part.reason)]
    say("parts: " + ", ".join(f"{part.name} ({part.what})" for part in chosen))
    if left_out := [name for name, part in known.items() if part not in chosen]:
        say(f"left out: {', '.join(left_out)} (make test PARTS={FULL} runs all, PARTS={LIST} says why)")
    begin = time.monotonic()
    with scratch():
        results = run(chosen)
    show_summary(results, time.monotonic() - begin)
    return int(not all(result.ok for result in results))


if __name__ == "__main__":
    sys.exit(main())
