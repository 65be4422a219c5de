"""Columnar kernels, running states and steps over objects give the same states, wherever a batch is cut."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.errors import ProcessingError
from millrace.task.aggregation.groups import Groups, group
from millrace.task.aggregation.kernels import ColumnAggregator, aggregate_columns, results_of
from millrace.task.aggregation.steps import result_of, running_states, step_of
from millrace.topology import aggregators as built_in

ALL: dict[str, ColumnAggregator] = {
    "count": built_in.count(),
    "sum": built_in.sum_(),
    "min": built_in.min_(),
    "max": built_in.max_(),
    "avg": built_in.avg(),
    "first": built_in.first(),
    "last": built_in.last(),
    "collect": built_in.collect(),
    "struct": built_in.struct(n=built_in.count(), total=built_in.sum_(), mean=built_in.avg(), least=built_in.min_()),
}
INTEGERS = st.integers(-(2**63), 2**63 - 1)
DOUBLES = st.floats(allow_nan=True, allow_infinity=False, width=64)
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int64": (pa.int64(), INTEGERS),
    "int32": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "float64": (pa.float64(), DOUBLES),
    "string": (pa.string(), st.text(max_size=3)),
}
# The mean of integers is that of doubles, which do not hold all of them; steps over Python's integers would differ.
SMALL = st.integers(-(2**20), 2**20)


def _groups(keys: list[int]) -> Groups:
    return group(np.array(keys, dtype=np.int64))


def _is_applicable(aggregator: str, kind: str) -> bool:
    return kind != "string" or aggregator not in {"sum", "avg", "struct"}


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(_same(first[name], second[name]) for name in first)
    if isinstance(first, list):
        return len(first) == len(second) and all(map(_same, first, second))
    if isinstance(first, float) and isinstance(second, float) and math.isnan(first):
        return math.isnan(second)
    return bool(first == second)


def _fold(aggregator: ColumnAggregator, keys: list[int], values: list[Any], states: dict[int, Any]) -> list[Any]:
    step = step_of(aggregator)
    after = []
    for key, value in zip(keys, values, strict=True):
        states[key] = step(states.get(key), value)
        after.append(states[key])
    return after


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", ALL)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_kernels_running_states_and_steps_agree_over_cuts(name: str, kind: str, data: st.DataObject) -> None:
    if not _is_applicable(name, kind):
        return
    aggregator = ALL[name]
    arrow_type, values_of = TYPES[kind]
    if name in {"avg", "struct"} and kind != "float64":
        values_of = SMALL
    rows = data.draw(st.lists(st.tuples(st.integers(0, 2), st.none() | values_of), max_size=12))
    cut = data.draw(st.integers(0, len(rows)))
    expected: dict[int, Any] = {}
    by_kernels: dict[int, Any] = {}
    by_running: dict[int, Any] = {}
    for part in (rows[:cut], rows[cut:]):
        if not part:
            continue
        keys = [key for key, _ in part]
        values = [value for _, value in part]
        groups = _groups(keys)
        column = pa.array(values, type=arrow_type)
        distinct = [keys[row] for row in groups.first_rows.tolist()]
        state_type = aggregate_columns(aggregator, column, groups, pa.nulls(groups.count)).type

        def prior(states: dict[int, Any], distinct: list[int] = distinct, kind: pa.DataType = state_type) -> pa.Array:
            return pa.array([states.get(key) for key in distinct], type=kind)

        after = _fold(aggregator, keys, values, expected)
        running = running_states(aggregator, column, groups, prior(by_running))
        assert all(map(_same, running.to_pylist(), after))
        by_running |= dict(zip(keys, running.to_pylist(), strict=True))
        states = aggregate_columns(aggregator, column, groups, prior(by_kernels))
        assert states.type == running.type
        by_kernels |= dict(zip(distinct, states.to_pylist(), strict=True))
        finished = [result_of(aggregator, state) for state in states.to_pylist()]
        assert all(map(_same, results_of(aggregator, states).to_pylist(), finished))
    assert _same(by_kernels, expected)
    assert _same(by_running, expected)


def test_a_sum_of_integers_wraps_as_in_java() -> None:
    values = pa.array([2**63 - 1, 1], type=pa.int64())
    groups = _groups([0, 0])
    assert aggregate_columns(built_in.sum_(), values, groups, pa.nulls(1)).to_pylist() == [-(2**63)]
    assert running_states(built_in.sum_(), values, groups, pa.nulls(1)).to_pylist() == [2**63 - 1, -(2**63)]


def test_a_field_is_read_from_structs_null_where_the_struct_is() -> None:
    values = pa.array([{"amount": 3}, None, {"amount": None}, {"amount": 4}])
    groups = _groups([0, 0, 0, 0])
    for aggregator, expected in (
        (built_in.sum_("amount"), 7),
        (built_in.count("amount"), 2),
        (built_in.count(), 4),
        (built_in.collect("amount"), [3, 4]),
    ):
        assert aggregate_columns(aggregator, values, groups, pa.nulls(1)).to_pylist() == [expected]


def test_a_field_that_typed_values_do_not_have_is_an_error_that_names_it() -> None:
    with pytest.raises(ProcessingError, match="no field 'price' to compute sum"):
        aggregate_columns(built_in.sum_("price"), pa.array([{"amount": 3}]), _groups([0]), pa.nulls(1))


def test_the_sum_of_texts_is_an_error() -> None:
    with pytest.raises(ProcessingError, match="sum of values of type string"):
        aggregate_columns(built_in.sum_(), pa.array(["a"]), _groups([0]), pa.nulls(1))


def test_the_mean_of_nothing_is_null() -> None:
    states = aggregate_columns(built_in.avg(), pa.array([None], type=pa.float64()), _groups([0]), pa.nulls(1))
    assert results_of(built_in.avg(), states).to_pylist() == [None]
    assert result_of(built_in.avg(), {"sum": 0.0, "count": 0}) is None


def test_the_result_of_a_struct_without_state_is_null() -> None:
    kind = pa.struct([("n", pa.int64()), ("mean", pa.struct([("sum", pa.float64()), ("count", pa.int64())]))])
    states = pa.array([None, {"n": 2, "mean": {"sum": 3.0, "count": 2}}], type=kind)
    aggregator = built_in.struct(n=built_in.count(), mean=built_in.avg())
    assert results_of(aggregator, states).to_pylist() == [None, {"n": 2, "mean": 1.5}]


def test_groups_are_numbered_in_the_order_in_which_they_appear() -> None:
    groups = _groups([7, 3, 7, 9, 3])
    assert groups.ids.tolist() == [0, 1, 0, 2, 1]
    assert groups.first_rows.tolist() == [0, 1, 3]
    assert groups.last_rows.tolist() == [2, 4, 3]
    assert _groups([]).count == 0
