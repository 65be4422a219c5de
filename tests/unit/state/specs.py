"""Specs of stores as the tests of the state need them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.state import TaskState
from millrace.topology.stores import StoreKind, StoreSpec

OpenState = Callable[..., TaskState]


def key_value(name: str = "kv", **fields: Any) -> StoreSpec:
    return StoreSpec(name=name, kind=StoreKind.KEY_VALUE, **fields)


def versioned(name: str = "ver", *, retention_ms: int = 20, **fields: Any) -> StoreSpec:
    fields = {"segment_interval_ms": 7, **fields}
    return StoreSpec(name=name, kind=StoreKind.VERSIONED, history_retention_ms=retention_ms, cached=False, **fields)


def window(name: str = "win", *, retention_ms: int = 120_000, **fields: Any) -> StoreSpec:
    return StoreSpec(name=name, kind=StoreKind.WINDOW, window_size_ms=60_000, retention_ms=retention_ms, **fields)
