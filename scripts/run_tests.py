"""``make test``: run the parts of the test suite, and report how each one ended, what took long, what ran twice, and
whether it computed or waited."""

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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from xml.etree import ElementTree

import psutil

from scripts.suite import ROOT, Part, parts

LIST, FULL = "list", "full"
TESTS_FAILED = 1
"""pytest's exit code when tests ran and some failed; other codes mean that something else went wrong."""

SLOWEST = 10
_MEMORY, _MEMORY_NEEDED = Path("/dev/shm"), 8 << 30
"""Linux's file system in memory, and how many bytes of it have to be free; a run takes about 2 GiB."""


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
        computed: seconds of CPU that its processes took, without its second attempt; those that outlived their parent,
            as brokers do and what a killed driver leaves, are not in it.
    """

    part: Part
    outcome: str
    seconds: float
    ok: bool
    twice: tuple[str, ...] = ()
    computed: float = 0.0


@dataclass(frozen=True)
class Ended:
    """A part whose process has ended.

    Args:
        part: it.
        code: its exit code.
        seconds: how long it took.
        computed: seconds of CPU of it and of the processes that it waited for.
        output: what it wrote; none where that was shown as it came.
    """

    part: Part
    code: int
    seconds: float
    computed: float
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
            twice, failed = second_attempt(part)
            if twice and not failed:
                outcome, ok = f"passed, {len(twice)} of its tests at the second attempt", True
        return Result(part, outcome, self.seconds + time.monotonic() - begin, ok, twice, self.computed)


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
        """Begin with the first part; a second call has nothing to do."""
        if self._thread.ident is None:
            self._thread.start()

    def finish(self) -> list[Result]:
        """Wait for the last part; a second call has nothing to add."""
        self.start()
        self._thread.join()
        ended, self._ended = self._ended, []
        return [each.result() for each in ended]

    def stop(self) -> None:
        """Interrupt the part that runs, which ends what its tests started, and begin no other."""
        self._stopping.set()
        if self._process is not None and self._process.poll() is None:
            interrupt(self._process)
        self.start()
        self._thread.join()

    def _run(self) -> None:
        for part in self._parts:
            if self._stopping.is_set():
                return
            output, begin = tempfile.TemporaryFile(), time.monotonic()  # noqa: SIM115 - it is read after the part
            self._process = start(part, output)
            self._ended.append(wait(part, self._process, begin, output))


def second_attempt(part: Part) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Run those tests once more that failed and that kill processes, alone.

    Returns:
        The tests that passed now, and those that failed again or may have no second attempt.
    """
    failed = {test.name for test in read_report(part.report()) if test.failed}
    say(f"\n--- {part.name}: those of {len(failed)} failed tests that kill processes, once more ---")
    wait(part, start(part, again=True), time.monotonic())
    passed = {test.name for test in read_report(part.report(again=True)) if not test.failed}
    return tuple(sorted(failed & passed)), tuple(sorted(failed - passed))


def start(part: Part, output: IO[bytes] | None = None, *, again: bool = False) -> subprocess.Popen[bytes]:
    """Begin a part, or its second attempt; what it writes is shown unless there is a file for it.

    It leads a process group, to which a Ctrl-C is passed on once: a second one would have pytest end before its tests
    have ended what they started.
    """
    part.report().parent.mkdir(exist_ok=True)
    part.report(again=again).unlink(missing_ok=True)
    return subprocess.Popen(
        part.line(again=again), cwd=ROOT, stdout=output, stderr=output and subprocess.STDOUT, process_group=0
    )


def wait(part: Part, process: subprocess.Popen[bytes], begin: float, output: IO[bytes] | None = None) -> Ended:
    """Wait for a part that began at a time of the monotonic clock, seconds; an interrupt ends it first."""
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except KeyboardInterrupt:
        interrupt(process)
        process.wait()
        raise
    # As Popen.wait() leaves it.
    process.returncode = os.waitstatus_to_exitcode(status)
    computed = usage.ru_utime + usage.ru_stime
    return Ended(part, process.returncode, time.monotonic() - begin, computed, output)


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a part and what it runs; one that has just ended needs none."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)


def idle_seconds() -> float:
    """Seconds that the cores of this machine had nothing to do, since it started, all cores together."""
    return float(psutil.cpu_times().idle)


def run(chosen: list[Part]) -> list[Result]:
    """Run parts: those that wait beside the others, those that need the machine for themselves at the end."""
    results: list[Result] = []
    beside = BesideOthers([part for part in chosen if part.beside_others and len(chosen) > 1])
    try:
        for number, part in enumerate(chosen, start=1):
            if not part.first:
                beside.start()
            if part.alone:
                results += beside.finish()
            if not part.exists():
                results.append(Result(part, f"no tests in {part.directory}", 0.0, ok=True))
            elif not part.beside_others or len(chosen) == 1:
                say(f"\n=== {number}/{len(chosen)} {part.name}: {part.what} ===")
                begin = time.monotonic()
                results.append(wait(part, start(part), begin).result())
        results += beside.finish()
    finally:
        beside.stop()
    return results


@contextmanager
def scratch() -> Iterator[None]:
    """Let what runs meanwhile keep its temporary files in memory, where there is room: no process waits for a disk
    then.

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


def show_summary(results: list[Result], seconds: float, idle: float) -> None:
    """Say how the parts ended, which tests were the slowest, and which had a second attempt.

    Args:
        results: how the parts ended.
        seconds: how long all of it took.
        idle: share of the machine's cores that had nothing to do meanwhile, 0 to 1.
    """
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
        say(f"{result.part.name:12} {result.outcome:45} {result.seconds:7.1f} s {result.computed:8.1f} s of CPU")
    outcome = "passed" if all(result.ok for result in results) else "FAILED"
    say(f"{'all':12} {outcome:45} {seconds:7.1f} s {idle:8.1%} of the cores idle")


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
    # A shell has what it runs in the background ignore interrupts, and that is inherited: tests could not interrupt
    # what they start then, nor this one its parts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    begin, idle = time.monotonic(), idle_seconds()
    with scratch():
        results = run(chosen)
    seconds = time.monotonic() - begin
    show_summary(results, seconds, (idle_seconds() - idle) / (seconds * (os.cpu_count() or 1)))
    return int(not all(result.ok for result in results))


if __name__ == "__main__":
    sys.exit(main())
