"""Scans that user code still holds when their stores are closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from structlog.testing import capture_logs

from millrace.dsl import Processor, Record, StoreBuilder, Stores, Topology, ValueAndTimestamp
from millrace.errors import ProcessingError, StateError
from millrace.serdes import StringSerde, Windowed
from millrace.state import TaskPosition, TaskState
from millrace.testing import TestRecord, TopologyTestDriver
from tests.sqlite_store import SqliteStore
from tests.unit.state.specs import key_value

S = StringSerde()
DAY = 86_400_000
Use = Callable[[Any], Any]

BUILDERS: dict[str, StoreBuilder] = {
    "key-value": Stores.key_value_store_builder(Stores.persistent_key_value_store("store"), S, S),
    "timestamped": Stores.timestamped_key_value_store_builder(Stores.persistent_key_value_store("store"), S, S),
    "memory": Stores.key_value_store_builder(Stores.in_memory_key_value_store("store"), S, S),
    "map": Stores.key_value_store_builder(Stores.lru_map("store", 10), S, S),
    "own": Stores.key_value_store_builder(Stores.custom_key_value_store("store", SqliteStore), S, S),
    "window": Stores.window_store_builder(Stores.persistent_window_store("store", DAY, 10), S, S),
    "session": Stores.session_store_builder(Stores.persistent_session_store("store", DAY), S, S),
}
KEYS = ("a", "ab", "b")


def _fill(kind: str, store: Any) -> None:
    for number, key in enumerate(KEYS):
        if kind == "window":
            store.put("a", key, 10 * number)
        elif kind == "session":
            store.put(Windowed("a", 100 * number, 100 * number), key)
        else:
            store.put(key, ValueAndTimestamp(key, 5) if kind == "timestamped" else key)


SCANS: list[tuple[str, str, Use]] = [
    *((kind, "all", lambda store: store.all()) for kind in BUILDERS if kind != "session"),
    *((kind, "range", lambda store: store.range("a", None)) for kind in ("key-value", "memory", "own")),
    *((kind, "reverse_range", lambda store: store.reverse_range("a", None)) for kind in ("key-value", "own")),
    ("key-value", "reverse_all", lambda store: store.reverse_all()),
    ("key-value", "prefix_scan", lambda store: store.prefix_scan("a")),
    ("window", "fetch", lambda store: store.fetch("a", 0, 100)),
    ("window", "backward_fetch", lambda store: store.backward_fetch("a", 0, 100)),
    ("window", "fetch_range", lambda store: store.fetch_range("a", "b", 0, 100)),
    ("window", "fetch_all", lambda store: store.fetch_all(0, 100)),
    ("session", "fetch", lambda store: store.fetch("a")),
    ("session", "backward_fetch", lambda store: store.backward_fetch("a")),
    ("session", "find_sessions", lambda store: store.find_sessions("a", 0, 1_000)),
]


def _driver(kind: str, use: Use, directory: Path) -> TopologyTestDriver:
    class Here(Processor[str, str]):
        def process(self, record: Record[str, str], /) -> None:
            store = self.context.get_state_store("store")
            if record.value == "fill":
                _fill(kind, store)
            else:
                use(store)

    topology = Topology().add_source("source", "in", key_serde=S, value_serde=S)
    topology.add_processor("reader", Here, "source").add_state_store(BUILDERS[kind], "reader")
    return TopologyTestDriver(topology, state_directory=directory)


def _run(kind: str, use: Use, directory: Path) -> list[Any]:
    """Fills the store, uses it in a later batch, closes everything; returns the warnings."""
    with capture_logs() as logs:
        with _driver(kind, use, directory) as driver:
            topic = driver.create_input_topic("in", S, S)
            topic.pipe_input("k", "fill", 5)
            topic.pipe_input("k", "use", 6)
        return [entry for entry in logs if entry["log_level"] == "warning"]


WARNING = {
    "event": "open scan ended with its store",
    "log_level": "warning",
    "task": "0_0",
    "node": "reader",
    "store": "store",
}


@pytest.mark.parametrize("begun", [False, True], ids=["not begun", "begun"])
@pytest.mark.parametrize(("kind", "_name", "scan"), SCANS, ids=[f"{kind} {name}" for kind, name, _ in SCANS])
def test_closing_a_store_ends_its_scans_names_their_reader_and_lets_it_be_opened_again(
    kind: str, _name: str, scan: Use, begun: bool, tmp_path: Path
) -> None:
    held: list[Iterator[Any]] = []

    def hold(store: Any) -> None:
        held.append(scan(store))
        if begun:
            next(held[0])

    assert _run(kind, hold, tmp_path) == [WARNING]
    for _ in range(2):  # an error is not the end of a scan
        with pytest.raises(StateError, match="scan of store store was used after the store had been closed"):
            next(held[0])
    found: list[Any] = []
    with _driver(kind, lambda store: found.extend(scan(store)), tmp_path) as driver:
        topic = driver.create_input_topic("in", S, S)
        if kind in ("memory", "map"):
            topic.pipe_input("k", "fill", 5)
        topic.pipe_input("k", "use", 7)
    assert len(found) >= 2


HELD: list[Any] = []
"""Keeps what was closed from being collected."""


def _closed(store: Any) -> None:
    with closing(store.all()) as entries:
        assert next(entries) == ("a", "a")
    HELD.append(entries)
    assert next(entries, "nothing more") == "nothing more"


def _left(store: Any) -> None:
    with store.all() as entries:
        assert next(entries) == ("a", "a")
    HELD.append(entries)
    assert list(entries) == []


@pytest.mark.parametrize(
    "use",
    [
        lambda store: list(store.all()),
        lambda store: next(store.all()),
        _closed,
        _left,
    ],
    ids=["read to the end", "let go", "closed", "closed by a with statement"],
)
def test_a_scan_that_has_ended_is_not_warned_of(use: Use, tmp_path: Path) -> None:
    assert _run("key-value", use, tmp_path) == []


def test_a_scan_goes_on_in_later_batches_with_what_was_there_when_it_began(tmp_path: Path) -> None:
    held: list[Iterator[Any]] = []

    def use(store: Any) -> None:
        if not held:
            held.append(store.all())
            assert next(held[0]) == ("a", "a")
            store.put("ac", "new")
        else:
            assert [key for key, _ in held[0]] == ["ab", "b"]

    with _driver("key-value", use, tmp_path) as driver:
        topic = driver.create_input_topic("in", S, S)
        for value in ("fill", "use", "use"):
            topic.pipe_input("k", value, 5)


def test_a_failure_in_the_middle_of_a_scan_does_not_keep_the_files(tmp_path: Path) -> None:
    def fail(store: Any) -> None:
        for key, _ in store.all():
            raise ValueError(key)

    with _driver("key-value", fail, tmp_path) as driver:
        topic = driver.create_input_topic("in", S, S)
        topic.pipe_input("k", "fill", 5)
        with pytest.raises(ProcessingError, match="ValueError: a") as caught:
            topic.pipe_batch([TestRecord("k", "use", 6)])
    assert caught.traceback  # whose frames hold the scan
    TaskState.open(tmp_path / "0_0", [BUILDERS["key-value"].spec]).close()


@pytest.mark.parametrize("end", [TaskState.close, TaskState.wipe])
def test_a_database_ends_the_scans_of_its_stores_whoever_holds_them(
    end: Callable[[TaskState], None], tmp_path: Path
) -> None:
    state = TaskState.open(tmp_path, [key_value()])
    state.key_value_store("kv").put_many([b"a", b"b"], [b"1", b"2"], np.zeros(2, np.int64))
    state.drain_changelog()
    state.commit(TaskPosition())
    scans = [state.key_value_store("kv").all() for _ in range(3)]
    assert [next(scan) for scan in scans[:2]] == [(b"a", b"1", 0)] * 2
    end(state)
    with pytest.raises(StateError, match="scan of store kv was used after"):
        next(scans[0])
    with pytest.raises(StateError, match="is closed"):
        next(scans[2], None)
    state.close()
    again = TaskState.open(tmp_path, [key_value()])
    assert len(list(again.key_value_store("kv").all())) == (2 if end is TaskState.close else 0)
    again.close()
