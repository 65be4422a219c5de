"""What real users met at joins of two streams, with the right results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millrace.dsl import Consumed, JoinWindows, KStream, Produced, StreamsBuilder
from millrace.errors import ProcessingError
from millrace.metrics import DropReason
from millrace.serdes import StringSerde
from millrace.testing import TestRecord, TopologyTestDriver
from millrace.topology.topology import FrozenTopology

TEXT = StringSerde()
STRINGS = Consumed.with_(TEXT, TEXT)
Row = tuple[str, str, str | None, int]
Result = tuple[str, str, int]
Run = Callable[[FrozenTopology, list[Row]], list[list[Result]]]


def joined(kind: str, windows: JoinWindows) -> FrozenTopology:
    builder = StreamsBuilder()
    left, right = builder.stream("L", STRINGS), builder.stream("R", STRINGS)
    join: Callable[..., KStream] = getattr(left, kind)
    join(right, lambda one, other: f"{one}-{other}", windows).to("out", Produced.with_(TEXT, TEXT))
    return builder.build()


@pytest.fixture(params=["record by record", "in one batch"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs rows and returns the results of each step: one a row, or one for all rows."""

    def run_rows(topology: FrozenTopology, rows: list[Row]) -> list[list[Result]]:
        with TopologyTestDriver(topology) as driver:
            topics = {name: driver.create_input_topic(name, TEXT, TEXT) for name in "LR"}
            results = driver.create_output_topic("out", TEXT, TEXT)
            steps: list[list[Result]] = []
            batches = [[row] for row in rows] if request.param == "record by record" else [rows]
            for batch in batches:
                driver.pipe_batch([(topics[side], TestRecord(key, value, at)) for side, key, value, at in batch])
                steps.append([(row.key, row.value, row.timestamp or 0) for row in results.read_records()])
            return steps

    return run_rows


def flat(steps: list[list[Result]]) -> list[Result]:
    return [result for step in steps for result in step]


J01: list[Row] = [
    ("L", "1", "10.5", 17000),
    ("L", "2", "3.32", 17000),
    ("R", "1", "Foo", 19000),
    ("R", "1", "Bar", 19000),
    ("R", "1", "Baz", 19000),
    ("R", "2", "Foo", 19000),
]


@pytest.mark.parametrize("difference", [3000, 2000])
def test_j01_no_null_result_comes_where_a_partner_arrives_inside_the_window(run: Run, difference: int) -> None:
    windows = JoinWindows.of_time_difference_with_no_grace(difference)
    assert sorted(flat(run(joined("left_join", windows), J01))) == [
        ("1", "10.5-Bar", 19000),
        ("1", "10.5-Baz", 19000),
        ("1", "10.5-Foo", 19000),
        ("2", "3.32-Foo", 19000),
    ]


def test_j01_one_millisecond_further_apart_gives_null_results_only(run: Run) -> None:
    windows = JoinWindows.of_time_difference_with_no_grace(1999)
    assert flat(run(joined("left_join", windows), J01)) == [("1", "10.5-None", 17000), ("2", "3.32-None", 17000)]


_J02_VALUES = (
    (1, "L", None), (2, "R", None), (3, "L", "A"), (4, "R", "a"), (5, "L", "B"), (6, "R", "b"), (7, "L", None),
    (8, "R", None), (9, "L", "C"), (10, "R", "c"), (11, "R", None), (12, "L", None), (13, "R", None), (14, "R", "d"),
    (15, "L", "D"), (40, "L", "E"), (60, "L", "F"), (80, "R", "f"), (100, "L", "G"),
)  # fmt: skip
J02: list[Row] = [(side, "k", value, at) for at, side, value in _J02_VALUES]
J02_MATCHES = {
    4: ["A-a"],
    5: ["B-a"],
    6: ["A-b", "B-b"],
    9: ["C-a", "C-b"],
    10: ["A-c", "B-c", "C-c"],
    14: ["A-d", "B-d", "C-d"],
    15: ["D-a", "D-b", "D-c", "D-d"],
}
J02_LEFT = {60: ["E-None"], 80: ["F-None"]}


@pytest.mark.parametrize(
    ("kind", "nulls"),
    [("join", {}), ("left_join", J02_LEFT), ("outer_join", {**J02_LEFT, 100: ["None-f"]})],
)
def test_j02_the_whole_table_of_join_results(run: Run, kind: str, nulls: dict[int, list[str]]) -> None:
    expected: dict[int, list[str]] = {**J02_MATCHES, **nulls}
    steps = run(joined(kind, JoinWindows.of_time_difference_and_grace(12, 5)), J02)
    values = [[value for _, value, _ in step] for step in steps]
    if len(steps) > 1:
        assert {row[3]: step for row, step in zip(J02, values, strict=True) if step} == expected
    assert [value for step in values for value in step] == [value for step in expected.values() for value in step]
    at_null = {value: at for _, value, at in flat(steps) if "None" in value}
    assert at_null == {value: at for value, at in (("E-None", 40), ("F-None", 60), ("None-f", 80)) if value in at_null}


def test_j02_null_values_are_dropped_and_counted() -> None:
    with TopologyTestDriver(joined("outer_join", JoinWindows.of_time_difference_and_grace(12, 5))) as driver:
        topics: dict[str, Any] = {name: driver.create_input_topic(name, TEXT, TEXT) for name in "LR"}
        for side, key, value, at in J02:
            topics[side].pipe_input(key, value, at)
        assert driver.dropped == {DropReason.NULL_VALUE: 7}


def test_j04_a_window_that_only_looks_ahead_waits_for_its_end(run: Run) -> None:
    windows = JoinWindows.of_time_difference_with_no_grace(100).before(0)
    rows: list[Row] = [("L", "k", "A0", 0), ("L", "o", "A1", 50), ("R", "k", "a0", 100)]
    assert flat(run(joined("left_join", windows), rows)) == [("k", "A0-a0", 100)]


def test_j04_a_null_result_comes_one_millisecond_behind_the_end_of_the_window() -> None:
    windows = JoinWindows.of_time_difference_with_no_grace(100).before(0)
    with TopologyTestDriver(joined("left_join", windows)) as driver:
        left, right = (driver.create_input_topic(name, TEXT, TEXT) for name in "LR")
        results = driver.create_output_topic("out", TEXT, TEXT)
        left.pipe_input("k", "A0", 0)
        right.pipe_input("o", "x", 100)
        assert results.is_empty
        right.pipe_input("o", "y", 101)
        assert [(row.value, row.timestamp) for row in results.read_records()] == [("A0-None", 0)]


def test_j04_the_first_look_takes_the_bound_of_the_side_that_brings_it_about(run: Run) -> None:
    windows = JoinWindows.of_time_difference_with_no_grace(100).after(0)
    rows: list[Row] = [("L", "k", "A0", 0), ("R", "o", "x", 1), ("R", "o", "y", 100)]
    assert flat(run(joined("left_join", windows), rows)) == []
    assert flat(run(joined("left_join", windows), [*rows, ("R", "o", "z", 101)])) == [("k", "A0-None", 0)]


def failing_once(value: str) -> tuple[list[str], Callable[[Any, Any], str]]:
    """What to fail at (emptied by the first failure), and a joiner that does."""
    failures = [value]

    def joiner(one: Any, other: Any) -> str:
        if other in failures:
            failures.clear()
            raise ValueError(other)
        return f"{one}-{other}"

    return failures, joiner


@pytest.mark.parametrize("rewrites", [(), ("single-store-self-join",)])
def test_a_batch_that_failed_leaves_nothing_behind_in_a_join(rewrites: tuple[str, ...]) -> None:
    failures, joiner = failing_once("c")
    builder = StreamsBuilder()
    left, right = builder.stream("L", STRINGS), builder.stream("R", STRINGS)
    windows = JoinWindows.of_time_difference_with_no_grace(10)
    left.outer_join(right, joiner, windows).to("out", Produced.with_(TEXT, TEXT))
    right.join(right, joiner, windows).to("self", Produced.with_(TEXT, TEXT))
    with TopologyTestDriver(builder.build(rewrites=rewrites)) as driver:
        topics = {name: driver.create_input_topic(name, TEXT, TEXT) for name in "LR"}
        topics["L"].pipe_input("k", "a", 100)
        topics["L"].pipe_input("other", "b", 100)
        batch = [(topics["R"], TestRecord("k", "x", 105)), (topics["R"], TestRecord("k", "c", 106))]
        with pytest.raises(ProcessingError):
            driver.pipe_batch(batch)
        assert not failures
        driver.pipe_batch(batch)
        driver.pipe_batch([(topics["R"], TestRecord("late", "d", 120))])
        results = driver.create_output_topic("out", TEXT, TEXT).read_records()
        assert [record.value for record in results] == ["a-x", "a-c", "b-None"]
        itself = driver.create_output_topic("self", TEXT, TEXT).read_records()
        assert [record.value for record in itself] == ["x-x", "c-x", "x-c", "c-c", "d-d"]


def test_a_joiner_that_fails_costs_the_rest_of_its_record_only() -> None:
    _, joiner = failing_once("x")
    builder = StreamsBuilder()
    left, right = builder.stream("L", STRINGS), builder.stream("R", STRINGS)
    windows = JoinWindows.of_time_difference_with_no_grace(10)
    left.join(right, joiner, windows).to("out", Produced.with_(TEXT, TEXT))
    with TopologyTestDriver(builder.build(), {"processing.exception.handler": "continue"}) as driver:
        topics = {name: driver.create_input_topic(name, TEXT, TEXT) for name in "LR"}
        for side, value in (("L", "a"), ("L", "b"), ("R", "x"), ("R", "y"), ("L", "c")):
            topics[side].pipe_input("k", value, 100)
        results = driver.create_output_topic("out", TEXT, TEXT).read_records()
        assert [record.value for record in results] == ["a-y", "b-y", "c-x", "c-y"]
        assert driver.dropped == {DropReason.PROCESSING: 1}
