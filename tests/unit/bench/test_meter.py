from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.bench.meter import ContestantFailedError, Sample, SparkProgress, figures_of, watch


def commits(*points: tuple[float, int]) -> list[Sample]:
    return [Sample(at_s, processed, visible=processed) for at_s, processed in points]


class Scripted:
    """Progress that advances by a fixed step each time it is asked."""

    def __init__(self, step: int) -> None:
        self._step = step
        self._processed = 0

    def processed(self) -> int:
        self._processed += self._step
        return self._processed

    def close(self) -> None:
        pass


def test_a_constant_pace_is_the_steady_rate_and_the_start_is_in_the_whole_run_only() -> None:
    samples = commits((0.0, 0), *((9.0 + second, 100 * second) for second in range(1, 11)))
    figures = figures_of(samples, records=1_000)
    assert figures.steady_records_per_s == pytest.approx(100.0)
    assert figures.first_output_s == 10.0
    assert figures.whole_run_s == 19.0
    assert figures.whole_run_records_per_s == pytest.approx(1_000 / 19.0)


def test_samples_between_two_commits_do_not_change_the_steady_rate() -> None:
    steps = [(float(second), second // 2 * 200) for second in range(11)]
    assert figures_of(commits(*steps), records=1_000).steady_records_per_s == pytest.approx(100.0)


def test_a_last_commit_that_waits_for_its_interval_does_not_slow_the_steady_rate() -> None:
    samples = commits(*((float(second), 100 * second) for second in range(10)), (60.0, 1_000))
    figures = figures_of(samples, records=1_000)
    assert figures.steady_records_per_s == pytest.approx(100.0)
    assert figures.whole_run_s == 60.0


def steady_rate(*points: tuple[float, int]) -> float | None:
    return figures_of(commits((0, 0), *points, (9, 1_000)), records=1_000).steady_records_per_s


def test_a_steady_rate_is_not_told_from_fewer_than_three_commits() -> None:
    assert steady_rate((1, 300), (3, 800)) is None
    assert steady_rate((1, 300), (2, 550), (3, 800)) == pytest.approx(250.0)


def test_a_steady_rate_is_not_told_from_the_tasks_of_one_batch() -> None:
    assert steady_rate((5.0, 500), (5.1, 600), (5.2, 700), (5.3, 800)) is None


def test_the_first_output_is_when_it_is_visible_not_when_offsets_are_committed() -> None:
    samples = [Sample(1.0, 500, visible=0), Sample(2.0, 800, visible=7), Sample(3.0, 1_000, visible=9)]
    assert figures_of(samples, records=1_000).first_output_s == 2.0


def test_samples_that_end_too_early_are_refused() -> None:
    with pytest.raises(ContestantFailedError, match="end before"):
        figures_of(commits((1, 10)), records=1_000)


def test_a_contestant_without_output_has_no_figures() -> None:
    with pytest.raises(ContestantFailedError, match="no output"):
        figures_of([Sample(1.0, 1_000, visible=0)], records=1_000)


def test_watching_ends_with_the_sample_that_has_the_whole_input() -> None:
    seen: list[Sample] = []
    samples = watch(
        Scripted(400),
        lambda: 1,
        records=1_000,
        started_at=time.monotonic(),
        check_alive=lambda: None,
        limit_s=10.0,
        on_sample=seen.append,
    )
    assert [sample.processed for sample in samples] == [400, 800, 1_200]
    assert seen == samples


def test_watching_gives_up_after_its_limit() -> None:
    with pytest.raises(ContestantFailedError, match="0 of 1000 records"):
        watch(
            Scripted(0),
            lambda: 0,
            records=1_000,
            started_at=time.monotonic() - 5.0,
            check_alive=lambda: None,
            limit_s=1.0,
        )


def test_watching_stops_at_once_when_the_contestant_has_ended() -> None:
    def ended() -> None:
        raise ContestantFailedError("it ended")

    with pytest.raises(ContestantFailedError, match="it ended"):
        watch(Scripted(1), lambda: 0, records=10, started_at=time.monotonic(), check_alive=ended, limit_s=10.0)


def test_spark_s_progress_is_the_end_of_its_newest_committed_batch(tmp_path: Path) -> None:
    progress = SparkProgress(tmp_path, topic="payments")
    assert progress.processed() == 0
    for directory in ("offsets", "commits"):
        (tmp_path / directory).mkdir()
    for batch, ends in ((0, '{"0":3,"1":4}'), (1, '{"0":10,"1":20}')):
        (tmp_path / "offsets" / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{{"payments":{ends}}}')
    assert progress.processed() == 0
    (tmp_path / "commits" / "0").write_text("v1\n{}")
    (tmp_path / "commits" / ".1.crc").write_text("")
    assert progress.processed() == 7
    (tmp_path / "commits" / "1").write_text("v1\n{}")
    assert progress.processed() == 30
