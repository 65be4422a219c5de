"""The measurements of all runs, as a file to compute with and as the page ``docs/benchmarks.md``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.latency import LatencyFigures, Stream
from tests.bench.meter import Figures
from tests.bench.recovery import RecoveryFigures
from tests.bench.workloads import Workload

BASELINE = "kafka-streams"
"""The contestant that the others are compared with: Kafka Streams with its default settings."""
MILLRACE = "millrace"
_MISSING = "n/a"


@dataclass(frozen=True)
class Throughput:
    """One run of a contestant over a backlog.

    Args:
        workload: what it read.
        contestant: its name.
        title: its name in tables.
        round: of the session, from 1: the contestants of one round ran one after the other.
        figures: what was measured.
    """

    workload: Workload
    contestant: str
    title: str
    round: int
    figures: Figures


@dataclass(frozen=True)
class Latency:
    """One run of a contestant under a steady stream; other arguments as in :class:`Throughput`.

    Args:
        stream: what it was given.
    """

    stream: Stream
    contestant: str
    title: str
    round: int
    figures: LatencyFigures


@dataclass(frozen=True)
class Recovery:
    """One run of a contestant that was killed; arguments as in :class:`Throughput`."""

    contestant: str
    title: str
    round: int
    figures: RecoveryFigures


@dataclass(frozen=True)
class StepTime:
    """What a step costs a record.

    Args:
        workload: name of the workload.
        step: what is done.
        microseconds: processor time of a record, over all cores.
    """

    workload: str
    step: str
    microseconds: float


@dataclass(frozen=True)
class Results:
    """Everything that was measured, newest sessions only.

    Args:
        machine: facts about the machine and the software, by name.
        throughput: runs over backlogs.
        latency: runs under a stream.
        recovery: runs with kills.
        steps: where a record's time goes in Millrace.
    """

    machine: Mapping[str, str] = field(default_factory=dict)
    throughput: tuple[Throughput, ...] = ()
    latency: tuple[Latency, ...] = ()
    recovery: tuple[Recovery, ...] = ()
    steps: tuple[StepTime, ...] = ()

    def with_throughput(self, runs: Sequence[Throughput]) -> Results:
        """These results, where ``runs`` take the place of all earlier runs of their workloads.

        Earlier runs go because a ratio is taken within one session only.
        """
        measured = {run.workload for run in runs}
        kept = tuple(run for run in self.throughput if run.workload not in measured)
        return replace(self, throughput=(*kept, *runs))

    def with_latency(self, runs: Sequence[Latency]) -> Results:
        """These results, where ``runs`` take the place of all earlier runs of their streams."""
        measured = {run.stream for run in runs}
        kept = tuple(run for run in self.latency if run.stream not in measured)
        return replace(self, latency=(*kept, *runs))

    def with_recovery(self, runs: Sequence[Recovery]) -> Results:
        """These results, where ``runs`` take the place of all earlier ones of their kind."""
        return replace(self, recovery=tuple(runs))

    def with_steps(self, steps: Sequence[StepTime]) -> Results:
        """These results, where ``steps`` take the place of all earlier ones of their workloads."""
        measured = {step.workload for step in steps}
        return replace(self, steps=(*(step for step in self.steps if step.workload not in measured), *steps))

    def with_machine(self, machine: Mapping[str, str]) -> Results:
        """These results, measured on ``machine``; those of another machine are dropped."""
        if dict(self.machine) == dict(machine):
            return self
        return Results(machine)


def read_results(file: Path) -> Results:
    """Results that :func:`write_results` wrote; none if the file does not exist."""
    if not file.exists():
        return Results()
    data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return Results(
        machine=data["machine"],
        throughput=tuple(
            Throughput(**{**run, "workload": Workload(**run["workload"]), "figures": Figures(**run["figures"])})
            for run in data["throughput"]
        ),
        latency=tuple(
            Latency(**{**run, "stream": Stream(**run["stream"]), "figures": LatencyFigures(**run["figures"])})
            for run in data["latency"]
        ),
        recovery=tuple(
            Recovery(**{**run, "figures": RecoveryFigures(**run["figures"])}) for run in data.get("recovery", ())
        ),
        steps=tuple(StepTime(**step) for step in data.get("steps", ())),
    )


def write_results(results: Results, file: Path) -> Path:
    """Write the results to ``file`` (JSON) and the page beside it.

    Returns:
        The page: the same name with ``.md``.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(asdict(results), indent=1) + "\n", encoding="utf-8")
    page = file.with_suffix(".md")
    page.write_text(render_page(results), encoding="utf-8")
    return page


def render_page(results: Results) -> str:
    """The page, as Markdown."""
    parts = [_INTRODUCTION, render_machine(results.machine)]
    by_workload: dict[Workload, list[Throughput]] = {}
    for run in results.throughput:
        by_workload.setdefault(run.workload, []).append(run)
    plain = {workload: runs for workload, runs in by_workload.items() if "-" not in workload.name}
    scaled = {workload: runs for workload, runs in by_workload.items() if "-" in workload.name}
    parts += [
        f"## {workload.name}: {_sizes(workload)}\n\n{render_throughput(plain[workload])}"
        for workload in sorted(plain, key=lambda each: each.name)
    ]
    if scaled:
        parts.append(f"## Growth\n\n{_GROWTH}\n\n{render_growth(by_workload)}")
    if results.latency:
        parts.append(f"## Latency\n\n{_LATENCY}\n\n{render_latency(results.latency)}")
    if results.steps:
        parts.append(f"## Where a record's time goes\n\n{_STEPS}\n\n{render_steps(results.steps)}")
    if results.recovery:
        parts.append(f"## Recovery\n\n{_RECOVERY}\n\n{render_recovery(results.recovery)}")
    return "\n\n".join(parts) + "\n"


def render_machine(machine: Mapping[str, str]) -> str:
    """A table of the machine's facts."""
    return _table(("", "measured with"), machine.items())


def render_throughput(runs: Sequence[Throughput]) -> str:
    """One workload's contestants, medians over the rounds, ratios to the baseline of the same round."""
    rows = []
    for contestant, title in _contestants(runs):
        mine = [run for run in runs if run.contestant == contestant]
        rows.append(
            (
                title,
                _seconds(_median(run.figures.first_output_s for run in mine)),
                _thousands(_median(run.figures.steady_records_per_s for run in mine)),
                _times(ratio(runs, contestant, whole_run=False)),
                _seconds(_median(run.figures.whole_run_s for run in mine)),
                _times(ratio(runs, contestant, whole_run=True)),
                _mebibytes(_median(run.figures.memory_bytes for run in mine)),
                _mebibytes(_median(run.figures.worker_memory_bytes for run in mine)),
            )
        )
    head = (
        "",
        "first output, s",
        "steady, records/s",
        "steady ratio",
        "whole run, s",
        "whole-run ratio",
        "memory, MiB",
        "of a worker, MiB",
    )
    rounds = max(run.round for run in runs)
    note = f"Medians of {rounds} rounds." if rounds > 1 else "One round."
    return f"{_table(head, rows)}\n\n{note}"


def render_growth(by_workload: Mapping[Workload, Sequence[Throughput]]) -> str:
    """Steady-state throughput over sizes: one row for each workload, one column for each contestant."""
    contestants = _contestants([run for runs in by_workload.values() for run in runs])
    rows = []
    for workload in sorted(by_workload, key=lambda each: (each.keys, each.records, each.partitions)):
        runs = by_workload[workload]
        row = [f"{workload.records:,}", f"{workload.keys:,}", str(workload.partitions)]
        for contestant, _ in contestants:
            mine = [run.figures.steady_records_per_s for run in runs if run.contestant == contestant]
            row.append(_with_ratio(_thousands(_median(mine)), ratio(runs, contestant, whole_run=False)))
        own = [run.figures.worker_memory_bytes for run in runs if run.contestant == MILLRACE]
        rows.append((*row, _mebibytes(_median(own))))
    titles = [title for _, title in contestants]
    return _table(("records", "keys", "partitions", *titles, "a worker of Millrace, MiB"), rows)


def render_latency(runs: Sequence[Latency]) -> str:
    """Percentiles of each contestant under each stream, medians over the rounds."""
    rows = []
    streams = sorted({run.stream for run in runs}, key=lambda each: (each.through_repartition, each.records_per_s))
    for stream, (contestant, title) in product(streams, _contestants(runs)):
        mine = [run.figures for run in runs if run.contestant == contestant and run.stream == stream]
        if not mine:
            continue
        rows.append(
            (
                str(stream),
                title,
                *(f"{median(values):,.0f}" for values in (
                    [each.p50_ms for each in mine], [each.p99_ms for each in mine], [each.worst_ms for each in mine]
                )),
            )
        )  # fmt: skip
    return _table(("stream", "", "p50, ms", "p99, ms", "longest, ms"), rows)


def render_recovery(runs: Sequence[Recovery]) -> str:
    """How long each contestant stood still, medians over the rounds."""
    rows = []
    for contestant, title in _contestants(runs):
        mine = [run.figures for run in runs if run.contestant == contestant]
        process_s, worker_s = _median(each.process_s for each in mine), _median(each.worker_s for each in mine)
        rows.append((title, _seconds(process_s), _seconds(worker_s)))
    return _table(("", "process killed, s", "worker killed, s"), rows)


def render_steps(steps: Sequence[StepTime]) -> str:
    """Microseconds by step, a column for each workload; what is below a hundredth is left out."""
    workloads = sorted({step.workload for step in steps})
    times = {(step.workload, step.step): step.microseconds for step in steps}
    names = list(dict.fromkeys(step.step for step in steps))
    rows = [
        (name, *(f"{times.get((workload, name), 0.0):.2f}" for workload in workloads))
        for name in names
        if any(times.get((workload, name), 0.0) >= 0.01 for workload in workloads)
    ]
    sums = [sum(us for (of, _), us in times.items() if of == workload) for workload in workloads]
    rows.append(("all", *(f"{total:.2f}" for total in sums)))
    return _table(("processor time of a record, µs", *workloads), rows)


def ratio(runs: Sequence[Throughput], contestant: str, *, whole_run: bool) -> float | None:
    """How many times as fast as the baseline a contestant is: the median of the rounds' ratios.

    Args:
        runs: of one workload.
        contestant: its name.
        whole_run: compare the whole run, start included, instead of the steady state.

    Returns:
        ``None`` where no round has both.
    """
    ratios = []
    for run in runs:
        if run.contestant != contestant:
            continue
        for other in runs:
            if other.contestant == BASELINE and other.round == run.round:
                mine, base = _rate(run.figures, whole_run=whole_run), _rate(other.figures, whole_run=whole_run)
                if mine is not None and base is not None:
                    ratios.append(mine / base)
    return median(ratios) if ratios else None


def _rate(figures: Figures, *, whole_run: bool) -> float | None:
    return figures.whole_run_records_per_s if whole_run else figures.steady_records_per_s


def _contestants(runs: Iterable[Throughput | Latency | Recovery]) -> list[tuple[str, str]]:
    named = dict.fromkeys((run.contestant, run.title) for run in runs)
    return sorted(named, key=lambda each: (each[0] != MILLRACE, each[0] != BASELINE, each[0]))


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _seconds(value: float | None) -> str:
    return _MISSING if value is None else f"{value:.1f}"


def _thousands(value: float | None) -> str:
    return _MISSING if value is None else f"{round(value, -2):,.0f}"


def _mebibytes(value: float | None) -> str:
    return _MISSING if value is None else f"{value / (1 << 20):,.0f}"


def _times(value: float | None) -> str:
    return _MISSING if value is None else f"{value:.2f}"


def _with_ratio(text: str, value: float | None) -> str:
    return text if value is None else f"{text} ({value:.2f})"


def _sizes(workload: Workload) -> str:
    return f"{workload.records:,} records, {workload.keys:,} keys, {workload.partitions} partitions"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


_INTRODUCTION = """# Benchmarks

Written by `make bench`; the raw figures are in `benchmarks.json`. Every contestant counts the same JSON payments of
about 100 bytes per user and one-minute tumbling window, with one minute of grace, and writes each updated count to an
output topic. Input, output and changelog are on one real broker on the same machine. Contestants run one after the
other in one session, after a run that only warms the broker up, in another order in each round, each from a new
application id and an empty state; the final counts of each are compared with counts that numpy computed from the
input, and a run with a difference is not reported. An always-true filter on the amount makes every contestant decode
the JSON.

* **Millrace**: `exactly_once_v2`, defaults, `local[2]`; **at** a commit: as it was then (f11cca58 is the last one
  without stream threads); **micro-batches**: with `processing.engine: micro-batches`.
* **Kafka Streams, defaults**: Java, `exactly_once_v2` (which commits every 100 ms), two stream threads for two cores.
* **Kafka Streams, commit 5 s, cache 1 GB**: the same with `commit.interval.ms=5000`, `statestore.cache.max.bytes=1 GB`.
* **Spark's own count**: `local[2]`, RocksDB state with changelog checkpointing, update mode, Spark's Kafka sink (so
  at-least-once output), 250,000 records a trigger, as many shuffle partitions as topic partitions, large fetches.

*First output* is the time from the start of the process to the first committed output record. *Steady* is the
throughput between the first and the last commit inside 20 % to 90 % of the input. *Whole run* is the time from the
start of the process to the commit of the whole input. *Memory* is the most that the contestant's processes took at
one moment (proportional set size), and what one Python worker of it took. Progress is read from outside, from
committed offsets (for Spark, from its commit log). A ratio says how many times as fast as Kafka Streams with default
settings the contestant was in the same round: above 1 is faster."""

_GROWTH = """Steady-state records/s for other numbers of records, partitions and keys; in brackets the ratio to Kafka
Streams with default settings, where it was measured in the same session. The last column is the most memory that one of
Millrace's two Python workers took: buffers, caches and open windows, with a backlog of any length."""

_STEPS = """`python -m tests.bench.steps`: processor time of Millrace in the steady state, over all cores, for each
record of the input; the broker's comes on top. Steps in Python are sampled with py-spy, other threads are named by the
kernel."""

_RECOVERY = """From `kill -9` under 5,000 payments a second until everything that was in the input at that moment was
committed: of the contestant's process with all that it had started, which was started again at once, and of one of its
Python workers."""

_LATENCY = """From a payment's timestamp to the moment at which a read_committed consumer got the first count that
includes it, after a warm-up."""
