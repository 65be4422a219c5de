"""Every metric has somebody who sets it, and every value of a label somebody who uses it. Found in the sources."""

from __future__ import annotations

import ast
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from millrace.driver.lifecycle import ApplicationState
from millrace.metrics import (
    APPLICATION_STATES,
    METRICS,
    ApplicationMetrics,
    DropReason,
    MetricDefinition,
    Phase,
    TaskStatistics,
    TransactionOutcome,
    definitions,
    registry,
)

ROOT = Path(definitions.__file__).resolve().parents[1]
OUTSIDE = tuple(path for path in ROOT.rglob("*.py") if path.parent.name != "metrics")
NAMES = {id(value): name for name, value in vars(definitions).items() if isinstance(value, MetricDefinition)}
NO_FEEDERS = {"exposition", "collect", "describe", "discard", "keep_only"}
"""Methods of the registry that set nothing."""


@cache
def trees(paths: tuple[Path, ...]) -> tuple[ast.Module, ...]:
    return tuple(ast.parse(path.read_text()) for path in paths)


@cache
def attributes(paths: tuple[Path, ...]) -> frozenset[tuple[str, str]]:
    """``a.b`` in the sources, as its two last names."""
    return frozenset(
        (node.value.id if isinstance(node.value, ast.Name) else getattr(node.value, "attr", ""), node.attr)
        for tree in trees(paths)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
    )


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_every_metric_is_set_by_the_registry(metric: MetricDefinition) -> None:
    assert ("m", NAMES[id(metric)]) in attributes((Path(registry.__file__),))


@pytest.mark.parametrize("member", [*DropReason, *Phase, *TransactionOutcome], ids=repr)
def test_every_value_of_a_label_is_given_outside_the_registry(member: DropReason | Phase | TransactionOutcome) -> None:
    assert (type(member).__name__, member.name) in attributes(OUTSIDE)


def test_the_states_are_those_that_an_application_can_have() -> None:
    assert set(APPLICATION_STATES) == {str(state) for state in ApplicationState}


def test_every_method_that_sets_a_metric_is_used() -> None:
    feeders = {
        name for name, value in vars(ApplicationMetrics).items() if callable(value) and not name.startswith("_")
    } - NO_FEEDERS
    assert feeders
    assert feeders <= {name for _, name in attributes(OUTSIDE)}


def test_every_column_of_a_task_s_row_is_filled() -> None:
    filled = {
        keyword.arg
        for tree in trees(OUTSIDE)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "TaskStatistics"
        for keyword in node.keywords
    }
    assert {column.name for column in fields(TaskStatistics)} == filled
