"""``python -m tests.bench.run``: the benchmark, from the broker to the page ``docs/benchmarks.md``."""

from __future__ import annotations

import signal
import sys
import time
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from millrace.home import millrace_home
from tests.bench.arena import Arena, open_arena
from tests.bench.contestants import KAFKA_STREAMS, KAFKA_STREAMS_TUNED, REPOSITORY, SPARK, Contestant, Report
from tests.bench.latency import Stream
from tests.bench.machine import describe_machine
from tests.bench.millrace_contestant import MILLRACE, MILLRACE_MICRO_BATCHES, millrace_before
from tests.bench.report import Latency, Recovery, Results, Throughput, read_results, write_results
from tests.bench.workloads import W1, WORKLOADS, Workload

CONTESTANTS: dict[str, Contestant] = {
    contestant.name: contestant
    for contestant in (MILLRACE, MILLRACE_MICRO_BATCHES, KAFKA_STREAMS, KAFKA_STREAMS_TUNED, SPARK)
}
_PUBLISHED = REPOSITORY / "docs" / "benchmarks.json"
_LATENCY_PARTITIONS = 4


class Kind(StrEnum):
    """What is measured."""

    THROUGHPUT = "throughput"
    LATENCY = "latency"
    GROWTH = "growth"
    RECOVERY = "recovery"


def growth_workloads(base: Workload) -> list[Workload]:
    """The workload over 1 and 16 partitions, and with ten times the keys; 4 partitions are the workload itself."""
    return [base.scaled(partitions=1), base.scaled(partitions=16), base.scaled(keys=base.keys * 10)]


def in_order(contestants: list[Contestant], *, round_number: int) -> list[Contestant]:
    """Contestants as given in odd rounds and backwards in even ones, so that none always runs on a warmer machine."""
    return contestants if round_number % 2 else contestants[::-1]


def run_throughput(
    arena: Arena, workloads: list[Workload], contestants: list[Contestant], *, rounds: int
) -> list[Throughput]:
    """All contestants over all workloads."""
    runs = []
    for workload in workloads:
        with arena.loaded(workload) as loaded:
            if workload is workloads[0]:
                # The broker is compiled while it serves its first reader, who would be measured as slower for that.
                arena.throughput(contestants[0], loaded)
            for number in range(1, rounds + 1):
                for contestant in in_order(contestants, round_number=number):
                    figures = arena.throughput(contestant, loaded)
                    runs.append(Throughput(workload, contestant.name, contestant.title, number, figures))
    return runs


def run_latency(arena: Arena, contestants: list[Contestant], stream: Stream, *, rounds: int) -> list[Latency]:
    """All contestants under a stream."""
    return [
        Latency(
            stream,
            contestant.name,
            contestant.title,
            number,
            arena.latency(contestant, stream, partitions=_LATENCY_PARTITIONS),
        )
        for number in range(1, rounds + 1)
        for contestant in in_order(contestants, round_number=number)
    ]


def run_recovery(arena: Arena, contestants: list[Contestant], *, rounds: int) -> list[Recovery]:
    """All contestants, killed under a stream."""
    return [
        Recovery(contestant.name, contestant.title, number, arena.recovery(contestant, partitions=_LATENCY_PARTITIONS))
        for number in range(1, rounds + 1)
        for contestant in in_order(contestants, round_number=number)
    ]


def _chosen(names: str) -> list[Contestant]:
    unknown = [name for name in names.split(",") if name not in CONTESTANTS]
    if unknown:
        raise typer.BadParameter(f"{', '.join(unknown)}: known contestants are {', '.join(CONTESTANTS)}")
    return [CONTESTANTS[name] for name in names.split(",")]


def _workloads(names: str) -> list[Workload]:
    unknown = [name for name in names.split(",") if name not in WORKLOADS]
    if unknown:
        raise typer.BadParameter(f"{', '.join(unknown)}: known workloads are {', '.join(WORKLOADS)}")
    return [WORKLOADS[name] for name in names.split(",")]


def reporter() -> Report:
    """Writes lines with the seconds since now."""
    begun = time.monotonic()

    def report(line: str) -> None:
        sys.stdout.write(f"[{time.monotonic() - begun:6.1f} s] {line}\n")
        sys.stdout.flush()

    return report


def prepared_checkout(path: Path | None) -> Path | None:
    """The path, if Millrace can run from it.

    Raises:
        typer.BadParameter: it is no checkout, or its environment is missing; the message says what to do.
    """
    if path is not None and not (path / ".git").exists():
        raise typer.BadParameter(f"{path} is no checkout: make one with `git worktree add {path} COMMIT`")
    if path is not None and not (path / ".venv" / "bin" / "python").exists():
        raise typer.BadParameter(f"{path} has no environment: run `scripts/setup.sh` in it")
    return path


def main(
    kind: Annotated[Kind, typer.Option(help="What to measure.")] = Kind.THROUGHPUT,
    workload: Annotated[str, typer.Option(help="Workloads, comma-separated (throughput only).")] = "W1",
    contestants: Annotated[str, typer.Option(help="Contestants, comma-separated.")] = ",".join(CONTESTANTS),
    rounds: Annotated[int, typer.Option(min=1, help="How often each contestant runs.")] = 1,
    records: Annotated[int | None, typer.Option(min=1, help="Other number of records, for a quick check.")] = None,
    keys: Annotated[int | None, typer.Option(min=1, help="Other number of keys.")] = None,
    partitions: Annotated[int | None, typer.Option(min=1, help="Other number of partitions.")] = None,
    rate: Annotated[int, typer.Option(min=1, help="Payments a second (latency only).")] = 5_000,
    seconds: Annotated[float, typer.Option(min=1, help="How long latencies are measured.")] = 60.0,
    repartition: Annotated[bool, typer.Option(help="Through a repartition topic (latency only).")] = False,
    before: Annotated[
        Path | None, typer.Option(callback=prepared_checkout, help="Also run Millrace as it is in this checkout.")
    ] = None,
    bootstrap_servers: Annotated[str | None, typer.Option(help="Use this broker, not one of its own.")] = None,
    results: Annotated[Path | None, typer.Option(help="File (JSON) of the results; the page is beside it.")] = None,
) -> None:
    """Measure and write the results and their page.

    Without --results they go to docs/, or, where a size differs from the workload's own, under the installation's
    directory, so that a quick check never ends up on the published page.

    Example: python -m tests.bench.run --workload W1,W2 --rounds 3
    """
    chosen = _chosen(contestants)
    if before is not None:
        chosen.append(millrace_before(before))
    quick = any(size is not None for size in (records, keys, partitions))
    file = results or (millrace_home() / "bench" / "quick.json" if quick else _PUBLISHED)
    report = reporter()
    for contestant in chosen:
        contestant.prepare(report)
    measured = read_results(file).with_machine(describe_machine())
    with open_arena(bootstrap_servers=bootstrap_servers, report=report) as arena:
        if kind is Kind.LATENCY:
            stream = Stream(rate, seconds, through_repartition=repartition)
            measured = measured.with_latency(run_latency(arena, chosen, stream, rounds=rounds))
        elif kind is Kind.RECOVERY:
            measured = measured.with_recovery(run_recovery(arena, chosen, rounds=rounds))
        else:
            bases = growth_workloads(W1) if kind is Kind.GROWTH else _workloads(workload)
            sized = [base.scaled(records=records, keys=keys, partitions=partitions) for base in bases]
            measured = measured.with_throughput(run_throughput(arena, sized, chosen, rounds=rounds))
    _publish(measured, file)


def _end_in_order(number: int, _frame: FrameType | None) -> None:
    # The default action would end this process only, and leave the broker and the contestant behind.
    sys.exit(128 + number)


def _publish(measured: Results, file: Path) -> None:
    page = write_results(measured, file)
    sys.stdout.write(f"\n{page.read_text(encoding='utf-8')}\n")


if __name__ == "__main__":
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, _end_in_order)
    application = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    application.command()(main)
    application()
