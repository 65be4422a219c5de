"""The operator, store and key serde of an aggregation of a grouped stream, by the kind of its windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.dsl.options import Materialized
from millrace.dsl.stores import key_value_store, session_store, window_store
from millrace.serdes import Serde, SessionWindowedSerde, TimeWindowedSerde
from millrace.serdes.unset import UnsetSerde
from millrace.topology.aggregators import Aggregator
from millrace.topology.emit_strategy import EmitStrategy
from millrace.topology.operators import (
    Operator,
    SessionAggregate,
    SlidingAggregate,
    StreamAggregate,
    WindowedAggregate,
)
from millrace.topology.session_windows import SessionWindows
from millrace.topology.sliding_windows import SlidingWindows
from millrace.topology.stores import StoreSpec
from millrace.topology.unlimited_windows import UnlimitedWindows
from millrace.topology.windows import TimeWindows

Merger = Callable[[Any, Any, Any], Any]
"""``(key, older aggregate, newer aggregate) -> aggregate``."""

AnyWindows = TimeWindows | UnlimitedWindows | SlidingWindows | SessionWindows


def aggregate_operator(
    store: str,
    windows: AnyWindows | None,
    aggregator: Aggregator,
    merger: Merger | None,
    *,
    emit: EmitStrategy = EmitStrategy.WINDOW_UPDATE,
) -> Operator:
    """Returns the operator that aggregates into ``store``."""
    match windows:
        case None:
            return StreamAggregate(store, aggregator)
        case SessionWindows():
            return SessionAggregate(store, windows, aggregator, merger, emit)
        case SlidingWindows():
            return SlidingAggregate(store, windows, aggregator, emit)
        case TimeWindows() | UnlimitedWindows():
            return WindowedAggregate(store, windows, aggregator, emit)


def aggregate_store(
    name: str,
    windows: AnyWindows | None,
    options: Materialized,
    *,
    key_serde: Serde | None,
    value_serde: Serde | None,
) -> StoreSpec:
    """Returns the store of an aggregation.

    Raises:
        TopologyError: the retention is shorter than the windows need.
    """
    match windows:
        case None:
            return key_value_store(name, options, key_serde=key_serde, value_serde=value_serde)
        case SessionWindows():
            return session_store(name, options, windows, key_serde=key_serde, value_serde=value_serde)
        case TimeWindows() | UnlimitedWindows() | SlidingWindows():
            return window_store(name, options, windows, key_serde=key_serde, value_serde=value_serde)


def table_key_serde(key_serde: Serde | None, windows: AnyWindows | None) -> Serde | None:
    """Returns the serde of the table's keys.

    It wraps the serde of the un-windowed keys, or the default one where that is not known.
    """
    if windows is None:
        return key_serde
    inner = key_serde or UnsetSerde("key")
    return (
        SessionWindowedSerde(inner)
        if isinstance(windows, SessionWindows)
        else TimeWindowedSerde(inner, windows.size_ms)
    )
