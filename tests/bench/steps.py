"""Where a record's time goes: Millrace's processor time in the steady state, by step.

``python -m tests.bench.steps --workload W2`` samples the Python threads of the stream threads' processes with py-spy
(``uv tool install py-spy``) and reads the processor time of all threads from ``/proc``. The steps' shares of the
samples divide the time of the Python threads; threads of librdkafka, RocksDB and Java are named by the kernel.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import psutil
import typer

from tests.bench.arena import open_arena
from tests.bench.contestants import REPOSITORY
from tests.bench.meter import STEADY_FROM, STEADY_TO, Sample
from tests.bench.millrace_contestant import MILLRACE
from tests.bench.processes import workers_of
from tests.bench.report import StepTime, read_results, write_results
from tests.bench.run import reporter
from tests.bench.workloads import WORKLOADS

RATE_PER_S = 200
_SAMPLED_S = "3"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PYTHON = "python"

STEPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("messages are taken from librdkafka's queue", ("LibrdkafkaReader._consume ",)),
    ("messages are examined", ("MessageTable.__init__ ",)),
    ("keys, values and timestamps are copied into columns", ("LibrdkafkaReader._columns ",)),
    ("messages are freed", ("LibrdkafkaReader.poll ",)),
    ("the loop of the stream thread", ("StreamThread.turn ",)),
    ("input is put together in its order", ("decided_input ",)),
    ("keys and values are decoded", ("Sources.read ",)),
    ("operators and stores", ("Nodes.run ", "Engine.process ")),
    ("output is encoded and handed to the producer", ("Outputs.write ",)),
    ("changes are encoded and handed to the producer", ("Outputs.log_changes ",)),
    ("transactions are sent and committed, stores written", ("Task._commit ",)),
)
"""Steps, and the beginnings of the frames that are theirs; the frame nearest to the leaf decides."""
OTHER = "everything else in Python"


def step_of(stack: str) -> str:
    """The step that a sampled stack belongs to.

    Args:
        stack: frames from the root to the leaf, separated by semicolons.
    """
    for frame in reversed(stack.split(";")):
        for step, beginnings in STEPS:
            if frame.startswith(beginnings):
                return step
    return OTHER


def shares(lines: Iterable[str]) -> dict[str, float]:
    """The share of each step of the samples, 0 to 1.

    Args:
        lines: a stack and how often it was seen, as ``py-spy record --format raw`` writes them.
    """
    seen: Counter[str] = Counter()
    for line in lines:
        stack, _, times = line.rpartition(" ")
        seen[step_of(stack)] += int(times)
    total = seen.total()
    return {step: times / total for step, times in seen.items()}


def thread_times(root: psutil.Process) -> dict[str, float]:
    """Processor seconds of the threads of a process and its descendants, by what they are."""
    times: dict[str, float] = defaultdict(float)
    for process in (root, *root.children(recursive=True)):
        try:
            program = Path(process.cmdline()[0]).name
            for task in Path(f"/proc/{process.pid}/task").iterdir():
                status = (task / "stat").read_text()
                name, _, rest = status.partition("(")[2].rpartition(")")
                fields = rest.split()
                times[_kind(program, name)] += (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
        except (psutil.Error, OSError, IndexError):  # it has ended meanwhile
            continue
    return times


def _kind(program: str, thread: str) -> str:
    if program == "java":
        return "Spark's virtual machine"
    if thread.startswith("rdk:"):
        return "threads of librdkafka: fetch, parse, send"
    if thread.startswith("rocksdb"):
        return "threads of RocksDB"
    return _PYTHON


@dataclass
class Steady:
    """Watches a run and measures between 20 % and 90 % of its input.

    Args:
        records: of the input.
        directory: for the samples.
        spy: the program py-spy.
    """

    records: int
    directory: Path
    spy: str
    spies: list[subprocess.Popen[bytes]] = field(default_factory=list)
    begin: tuple[int, dict[str, float]] | None = None
    end: tuple[int, dict[str, float]] | None = None

    def __call__(self, sample: Sample, pid: int) -> None:
        """Take a sample of the run's progress."""
        share = sample.processed / self.records
        if share >= STEADY_FROM and self.begin is None:
            root = psutil.Process(pid)
            self.begin = (sample.processed, thread_times(root))
            self.spies = [self._spy(worker.pid) for worker in workers_of(pid)]
        elif share >= STEADY_TO and self.begin is not None and self.end is None:
            self.end = (sample.processed, thread_times(psutil.Process(pid)))

    def _spy(self, pid: int) -> subprocess.Popen[bytes]:
        command = [
            self.spy, "record", "--pid", str(pid), "--rate", str(RATE_PER_S), "--duration", _SAMPLED_S,
            "--format", "raw", "--threads", "--nonblocking", "--output", str(self.directory / f"{pid}.raw"),
        ]  # fmt: skip
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def times(self) -> dict[str, float]:
        """Microseconds of processor time of a record, by step.

        Raises:
            RuntimeError: the run was too short.
        """
        for spy in self.spies:
            spy.wait()
        if self.begin is None or self.end is None:
            raise RuntimeError("the run had no steady state: measure it with more records")
        records = self.end[0] - self.begin[0]
        spent = {kind: (s - self.begin[1].get(kind, 0.0)) / records * 1e6 for kind, s in self.end[1].items()}
        lines = [line for path in self.directory.glob("*.raw") for line in path.read_text().splitlines()]
        in_python = spent.pop(_PYTHON)
        return {**{step: share * in_python for step, share in shares(lines).items()}, **spent}


def in_order(times: Mapping[str, float]) -> list[tuple[str, float]]:
    """Steps as a record meets them, then the others."""
    names = [step for step, _ in STEPS]
    return sorted(times.items(), key=lambda each: names.index(each[0]) if each[0] in names else len(names))


def main(
    workload: Annotated[str, typer.Option(help="Which workload.")] = "W2",
    records: Annotated[int, typer.Option(min=1, help="How many records.")] = 9_000_000,
    results: Annotated[Path, typer.Option(help="File (JSON) of the results; the page is beside it.")] = REPOSITORY
    / "docs"
    / "benchmarks.json",
) -> None:
    """Measure where a record's time goes, and write it into the results and their page."""
    spy = shutil.which("py-spy")
    if spy is None:
        raise typer.BadParameter("py-spy is needed: uv tool install py-spy")
    report = reporter()
    sized = WORKLOADS[workload].scaled(records=records)
    MILLRACE.prepare(report)
    with open_arena(bootstrap_servers=None, report=report) as arena, arena.loaded(sized) as loaded:
        arena.throughput(MILLRACE, loaded)
        with tempfile.TemporaryDirectory() as directory:
            steady = Steady(records, Path(directory), spy)
            arena.throughput(MILLRACE, loaded, observe=steady)
            times = steady.times()
    measured = read_results(results).with_steps([StepTime(workload, step, us) for step, us in in_order(times)])
    page = write_results(measured, results)
    sys.stdout.write(f"\n{page.read_text(encoding='utf-8')}\n")


if __name__ == "__main__":
    application = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    application.command()(main)
    application()
