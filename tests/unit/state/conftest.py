from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.state import StateOptions, TaskState
from millrace.topology.stores import StoreSpec
from tests.unit.state.specs import OpenState


@pytest.fixture(params=["rocksdb", "rocksdb without cache", "memory"])
def open_state(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenState]:
    """Opens (and at the end closes) states of one directory on each backend."""
    opened: list[TaskState] = []
    cache = {} if request.param != "rocksdb without cache" else {"read_cache_bytes": 0}

    def open_one(*specs: StoreSpec) -> TaskState:
        directory = None if request.param == "memory" else tmp_path / "0_0"
        state = TaskState.open(directory, specs, options=StateOptions(**cache))  # type: ignore[arg-type]
        opened.append(state)
        return state

    yield open_one
    for state in opened:
        state.close()
