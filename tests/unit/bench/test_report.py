from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.latency import LatencyFigures, Stream
from tests.bench.meter import Figures
from tests.bench.recovery import RecoveryFigures
from tests.bench.report import (
    Latency,
    Recovery,
    Results,
    Throughput,
    ratio,
    read_results,
    render_growth,
    render_latency,
    render_page,
    render_recovery,
    render_throughput,
    write_results,
)
from tests.bench.workloads import W1, W2, Workload

MACHINE = {"Processor": "Test, 2 cores"}


def run(
    contestant: str, steady: float | None, whole_run_s: float, *, number: int = 1, workload: Workload = W1
) -> Throughput:
    memory = (1_500 << 20, 320 << 20) if contestant == "millrace" else (700 << 20, None)
    figures = Figures(3_000_000, 5.25, steady, whole_run_s, *memory)
    return Throughput(workload, contestant, contestant.title(), number, figures)


TWO_ROUNDS = (
    run("kafka-streams", 50_000.0, 60.0),
    run("millrace", 200_000.0, 20.0),
    run("millrace", 180_000.0, 30.0, number=2),
    run("kafka-streams", 60_000.0, 60.0, number=2),
)


def test_a_ratio_is_the_median_of_the_ratios_within_each_round() -> None:
    assert ratio(TWO_ROUNDS, "millrace", whole_run=False) == pytest.approx(3.5)
    assert ratio(TWO_ROUNDS, "millrace", whole_run=True) == pytest.approx(2.5)
    assert ratio(TWO_ROUNDS, "kafka-streams", whole_run=False) == 1.0


def test_a_contestant_without_the_baseline_in_its_round_has_no_ratio() -> None:
    runs = [run("kafka-streams", 50_000.0, 60.0), run("millrace", 200_000.0, 20.0, number=2)]
    assert ratio(runs, "millrace", whole_run=False) is None


def test_the_table_has_millrace_first_then_the_baseline_and_says_how_many_rounds() -> None:
    assert render_throughput(TWO_ROUNDS).splitlines() == [
        (
            "|  | first output, s | steady, records/s | steady ratio | whole run, s | whole-run ratio | memory, MiB"
            " | of a worker, MiB |"
        ),
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| Millrace | 5.2 | 190,000 | 3.50 | 25.0 | 2.50 | 1,500 | 320 |",
        "| Kafka-Streams | 5.2 | 55,000 | 1.00 | 60.0 | 1.00 | 700 | n/a |",
        "",
        "Medians of 2 rounds.",
    ]


def test_a_figure_that_could_not_be_measured_is_not_a_number_in_the_table() -> None:
    row = render_throughput([run("spark", None, 31.0)]).splitlines()[2]
    assert row == "| Spark | 5.2 | n/a | n/a | 31.0 | n/a | 700 | n/a |"


def test_growth_has_a_row_for_each_size_in_order() -> None:
    sixteen = W1.scaled(partitions=16)
    table = render_growth(
        {
            sixteen: [run("millrace", 240_000.0, 20.0, workload=sixteen)],
            W1: [run("millrace", 200_000.0, 20.0), run("kafka-streams", 50_000.0, 60.0)],
        }
    )
    assert table.splitlines()[2:] == [
        "| 3,000,000 | 100,000 | 4 | 200,000 (4.00) | 50,000 (1.00) | 320 |",
        "| 3,000,000 | 100,000 | 16 | 240,000 | n/a | 320 |",
    ]


STEADY = Stream()
REPARTITIONED = Stream(20_000, 30.0, through_repartition=True)
FIGURES = LatencyFigures(300_000, 420.0, 610.0, 900.0)


def test_latency_has_a_row_for_each_contestant_under_each_stream() -> None:
    runs = [
        Latency(REPARTITIONED, "millrace", "Millrace", 1, FIGURES),
        Latency(STEADY, "spark", "Spark", 1, LatencyFigures(300_000, 1_500.0, 2_900.4, 3_100.0)),
        Latency(STEADY, "millrace", "Millrace", 1, FIGURES),
    ]
    assert render_latency(runs).splitlines()[2:] == [
        "| 5,000 payments a second, for 60 s | Millrace | 420 | 610 | 900 |",
        "| 5,000 payments a second, for 60 s | Spark | 1,500 | 2,900 | 3,100 |",
        "| 20,000 payments a second through a repartition topic, for 30 s | Millrace | 420 | 610 | 900 |",
    ]


def test_a_new_session_replaces_the_earlier_latencies_of_its_streams_only() -> None:
    kept = Latency(REPARTITIONED, "millrace", "Millrace", 1, FIGURES)
    new = Latency(STEADY, "spark", "Spark", 1, FIGURES)
    earlier = Results(MACHINE, (), (Latency(STEADY, "millrace", "Millrace", 1, FIGURES), kept))
    assert earlier.with_latency([new]).latency == (kept, new)


def test_recovery_has_the_medians_of_the_rounds_and_none_where_there_is_no_worker() -> None:
    runs = [
        Recovery("kafka-streams", "Kafka Streams", 1, RecoveryFigures(50.0, None)),
        *(Recovery("millrace", "Millrace", number, RecoveryFigures(4.0 + number, 1.0)) for number in (1, 2, 3)),
    ]
    assert render_recovery(runs).splitlines()[2:] == ["| Millrace | 6.0 | 1.0 |", "| Kafka Streams | 50.0 | n/a |"]


def test_results_survive_the_file_and_the_page_is_beside_it(tmp_path: Path) -> None:
    results = Results(MACHINE, TWO_ROUNDS, (Latency(REPARTITIONED, "millrace", "Millrace", 1, FIGURES),))
    results = results.with_recovery([Recovery("millrace", "Millrace", 1, RecoveryFigures(5.0, 1.0))])
    page = write_results(results, tmp_path / "docs" / "benchmarks.json")
    assert read_results(tmp_path / "docs" / "benchmarks.json") == results
    assert page == tmp_path / "docs" / "benchmarks.md"
    assert "| Processor | Test, 2 cores |" in page.read_text()


def test_no_file_is_no_results(tmp_path: Path) -> None:
    assert read_results(tmp_path / "none.json") == Results()


def test_a_new_session_replaces_the_earlier_runs_of_its_workloads_only() -> None:
    earlier = Results(MACHINE, (*TWO_ROUNDS, run("spark", 90_000.0, 40.0, workload=W2)))
    new = [run("millrace", 300_000.0, 15.0)]
    assert earlier.with_throughput(new).throughput == (earlier.throughput[-1], *new)


def test_results_of_another_machine_are_dropped() -> None:
    earlier = Results(MACHINE, TWO_ROUNDS)
    assert earlier.with_machine(dict(MACHINE)) is earlier
    assert earlier.with_machine({"Processor": "Other"}) == Results({"Processor": "Other"})


def test_the_page_has_a_section_for_each_kind_that_was_measured() -> None:
    scaled = W1.scaled(keys=1_000_000)
    page = render_page(Results(MACHINE, (*TWO_ROUNDS, run("millrace", 150_000.0, 25.0, workload=scaled))))
    assert "## W1: 3,000,000 records, 100,000 keys, 4 partitions" in page
    assert "## Growth" in page
    assert "| 3,000,000 | 1,000,000 | 4 | 150,000 | n/a |" in page
    assert "## Latency" not in page
