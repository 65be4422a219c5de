from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from millrace.state import DatabaseOptions, StateOptions, TaskPosition, TaskState
from millrace.topology.rocksdb_options import RocksDBOptions
from tests.unit.state.specs import window

MINUTE = 60_000

CYCLES = """
import json
import os
import sys
from pathlib import Path

import numpy as np
import psutil

from millrace.state import DatabaseOptions, StateOptions, TaskPosition, TaskState
from millrace.topology.stores import StoreKind, StoreSpec

root = Path(sys.argv[1])
MINUTE = 60_000
SPECS = [
    StoreSpec(name=name, kind=StoreKind.WINDOW, window_size_ms=MINUTE, retention_ms=2 * MINUTE) for name in ("a", "b")
]
OPTIONS = StateOptions(
    database=DatabaseOptions(memory_bytes=96 << 20, write_buffers_bytes=32 << 20), read_cache_bytes=1 << 20
)
keys = [b"%04d" % number for number in range(40)] * 10
values = [b"x" * 100] * len(keys)
resident = []
for cycle in range(3):
    states = [TaskState.open(root / f"0_{partition}", SPECS, options=OPTIONS) for partition in range(30)]
    for state in states:
        for name in ("a", "b"):
            store = state.window_store(name)
            for step in range(50):
                starts = np.repeat(np.arange(10, dtype=np.int64), 40) * MINUTE
                starts += (cycle * 500 + step * 10) * MINUTE
                store.put_many(keys, starts, values, starts)
                state.drain_changelog()
                state.commit(TaskPosition())
            assert len(list(store.all())) == 2 * 40
    for state in states:
        state.close()
    resident.append(psutil.Process().memory_info().rss)
open_files = [path for path in map(os.path.realpath, Path("/proc/self/fd").iterdir()) if path.startswith(str(root))]
print(json.dumps({"resident": resident, "open_files": open_files}))
"""


def test_memory_does_not_grow_over_restarts_of_many_tasks_with_many_segments(tmp_path: Path) -> None:
    """Case X01."""
    result = subprocess.run([sys.executable, "-c", CYCLES, str(tmp_path)], check=True, capture_output=True, text=True)

    outcome = json.loads(result.stdout.splitlines()[-1])
    assert outcome["open_files"] == []
    growth_mb = (outcome["resident"][2] - outcome["resident"][0]) / (1 << 20)
    assert growth_mb < 100, outcome


def test_the_disk_space_of_expired_segments_is_given_back(tmp_path: Path) -> None:
    """Case X01."""
    options = StateOptions(database=DatabaseOptions(stores=RocksDBOptions(write_buffer_bytes=1 << 20)))
    state = TaskState.open(tmp_path, [window(retention_ms=2 * MINUTE)], options=options)
    store = state.window_store("win")
    keys = [b"%05d" % number for number in range(5_000)]
    noise = np.random.default_rng(1)
    written = largest = 0
    for minute in range(60):
        values: list[bytes | None] = [noise.bytes(100) for _ in keys]
        written += len(keys) * 100
        starts = np.full(len(keys), minute * MINUTE)
        store.put_many(keys, starts, values, starts)
        state.drain_changelog()
        state.commit(TaskPosition())
        largest = max(largest, state.sizes()["win"][1])

    live = 3 * len(keys) * 100
    assert len(list(store.all())) == 2 * len(keys)
    # Ten write buffers is what RocksDB's own compaction may leave lying about.
    assert largest < live + 10 * (1 << 20) < written
    state.close()
