from __future__ import annotations

from millrace.insight.overview import Trend
from millrace.insight.overview.history import History, Sample, flows, lag_points, lag_trend, rate


def sample(at: float, *, lag: int = 0, records: int = 0, driver: str = "one", **more: object) -> Sample:
    return Sample(at=at, driver=driver, lag=lag, records=records, **more)  # type: ignore[arg-type]


def test_a_rate_needs_two_looks_at_one_driver() -> None:
    probes: tuple[Sample, ...] = (sample(0, records=100),)
    assert rate(probes, lambda each: each.records) is None
    probes += (sample(5, records=600),)
    assert rate(probes, lambda each: each.records) == 100
    restarted = (*probes, sample(10, records=20, driver="two"))
    assert rate(restarted, lambda each: each.records) is None


def test_a_rate_is_that_of_the_last_half_minute() -> None:
    probes = tuple(sample(at, records=at * 10 if at < 100 else 1000 + (at - 100) * 50) for at in range(0, 200, 5))
    assert rate(probes, lambda each: each.records) == 50


def test_what_flows_is_by_topic_and_by_sub_topology() -> None:
    probes = (
        sample(0, read={"a": 10}, written={(1, "out"): 0}, processed={1: 10}),
        sample(10, read={"a": 30, "b": 5}, written={(1, "out"): 40}, processed={1: 60}),
    )
    found = flows(probes)
    assert found.read == {"a": 2.0, "b": 0.5}
    assert found.written == {(1, "out"): 4.0}
    assert found.processed == {1: 5.0}


def test_the_trend_of_the_lag_is_not_that_of_one_batch() -> None:
    steady = tuple(sample(at, lag=1000 + (at // 5 % 2) * 30) for at in range(0, 120, 5))
    growing = tuple(sample(at, lag=at * 40) for at in range(0, 120, 5))
    falling = tuple(sample(at, lag=5000 - at * 40) for at in range(0, 120, 5))
    assert lag_trend(steady) is Trend.STEADY
    assert lag_trend(growing) is Trend.GROWING
    assert lag_trend(falling) is Trend.FALLING
    assert lag_trend(growing[:2]) is Trend.UNKNOWN
    assert lag_trend(()) is Trend.UNKNOWN


def test_a_lag_of_one_which_older_tools_show_is_steady() -> None:
    assert lag_trend(tuple(sample(at, lag=at // 5 % 2) for at in range(0, 60, 5))) is Trend.STEADY


def test_points_are_thinned_out_and_end_with_the_last_look() -> None:
    points = lag_points(tuple(sample(at, lag=at) for at in range(1, 361)))
    assert len(points) <= 60
    assert points[-1].lag == 360
    assert [point.at for point in points] == sorted(point.at for point in points)


def test_the_history_forgets_the_oldest_and_takes_no_look_twice() -> None:
    history = History()
    for at in [*range(500), 499, 3]:
        history.add(sample(at))
    assert [each.at for each in history.samples()] == list(range(140, 500))
