"""Every kind of store in every place, cached or not, logged or not: the same results, through whole topologies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from millrace.dsl import (
    Consumed,
    JoinWindows,
    KStream,
    Materialized,
    Produced,
    SessionWindows,
    SlidingWindows,
    StoreBackend,
    Stores,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
)
from millrace.errors import ProcessingError, TopologyError
from millrace.serdes import LongSerde, StringSerde
from millrace.state import TaskState
from millrace.testing import TestRecord, TopologyTestDriver
from millrace.topology.store_builders import StoreSupplier
from millrace.topology.stores import StoreKind, StoreSpec
from millrace.topology.topology import FrozenTopology
from tests.sqlite_store import SqliteStore, VolatileStore

TEXT = StringSerde()
MINUTE = 60_000
RECORDS = [
    TestRecord("a", "1", 0),
    TestRecord("b", "2", 5),
    TestRecord("a", "3", 20),
    TestRecord("a", "4", 3),
    TestRecord("b", "5", 70),
    TestRecord("a", "6", 71),
]
Define = Callable[[KStream, Materialized], Any]


def _aggregated(windows: Any) -> Define:
    def define(stream: KStream, options: Materialized) -> Any:
        grouped = stream.group_by_key()
        return (grouped if windows is None else grouped.windowed_by(windows)).reduce(
            lambda one, two: one + two, options
        )

    return define


KINDS: dict[str, Define] = {
    "key-value": _aggregated(None),
    "table": lambda stream, options: stream.to_table(options),
    "tumbling": _aggregated(TimeWindows.of_size_and_grace(10, 50)),
    "sliding": _aggregated(SlidingWindows.of_time_difference_and_grace(10, 50)),
    "sessions": _aggregated(SessionWindows.of_inactivity_gap_and_grace(10, 50)),
}
PLACES: dict[str, StoreBackend | None] = {
    "rocksdb": StoreBackend.ROCKSDB,
    "memory": StoreBackend.MEMORY,
    "user's own": None,
}


def supplier(kind: str) -> StoreSupplier:
    if kind == "tumbling":
        return Stores.custom_window_store("store", 5 * MINUTE, 10, SqliteStore)
    if kind == "sliding":
        return Stores.custom_window_store("store", 5 * MINUTE, 10, SqliteStore)
    if kind == "sessions":
        return Stores.custom_session_store("store", 5 * MINUTE, SqliteStore)
    return Stores.custom_key_value_store("store", SqliteStore)


def build(kind: str, place: str, *, cached: bool, logged: bool) -> FrozenTopology:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, TEXT))
    backend = PLACES[place]
    options = Materialized.as_("store").with_retention(5 * MINUTE)
    options = Materialized.as_(supplier(kind)) if backend is None else options.with_store_type(backend)
    options = options.with_key_serde(TEXT).with_value_serde(TEXT)
    options = options.with_caching_enabled() if cached else options.with_caching_disabled()
    settings = {"segment.bytes": "1000000"}
    options = options.with_logging_enabled(settings) if logged else options.with_logging_disabled()
    KINDS[kind](stream, options).to_stream(lambda key, _: str(getattr(key, "key", key))).to(
        "out", Produced.with_(TEXT, TEXT)
    )
    return builder.build()


def content_of(driver: TopologyTestDriver) -> list[Any]:
    """What the store holds, keys with their windows."""
    kind = driver.store_kind("store")
    if kind is StoreKind.SESSION:
        return [*driver.session_store("store").all().items()]
    read = driver.window_store if kind is StoreKind.WINDOW else driver.key_value_store
    return [*read("store").entries()]


def run(topology: FrozenTopology, directory: Path, *, in_batches: bool) -> tuple[list[Any], list[Any], list[Any]]:
    """What goes out, what the store holds, and what its changelog gets."""
    with TopologyTestDriver(topology, state_directory=directory) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        for records in [RECORDS] if in_batches else [[record] for record in RECORDS]:
            topic.pipe_batch(records)
        out = driver.create_output_topic("out", TEXT, TEXT).read_key_values()
        return out, content_of(driver), driver.changelogs["topology-test-driver-store-changelog"]


@pytest.mark.parametrize("logged", [True, False], ids=["logged", "not logged"])
@pytest.mark.parametrize("cached", [True, False], ids=["cached", "not cached"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_store_gives_the_same_wherever_it_is(
    kind: str, place: str, cached: bool, logged: bool, tmp_path: Path
) -> None:
    plain = build(kind, "memory", cached=False, logged=True)
    every_update, content, changelog = run(plain, tmp_path / "plain", in_batches=False)
    topology = build(kind, place, cached=cached, logged=logged)
    (spec,) = topology.sub_topologies[0].stores
    assert (spec.cached, spec.logged) == (cached, logged)
    assert spec.changelog_settings == ((("segment.bytes", "1000000"),) if logged else ())
    assert spec.changelog_topic("app") == ("app-store-changelog" if logged else None)

    assert run(topology, tmp_path / "one by one", in_batches=False) == (
        every_update,
        content,
        changelog if logged else [],
    )
    out, found, logged_in_batch = run(topology, tmp_path / "in a batch", in_batches=True)
    assert found == content
    assert dict(out) == dict(every_update)
    if not cached:
        assert out == every_update
    elif kind in ("key-value", "tumbling"):
        assert len(out) == len(content) < len(every_update)
    if logged and not cached:
        assert logged_in_batch == changelog
    elif not logged:
        assert logged_in_batch == []


@pytest.mark.parametrize("place", ["rocksdb", "user's own"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_on_disk_is_there_after_a_restart(kind: str, place: str, tmp_path: Path) -> None:
    topology = build(kind, place, cached=True, logged=True)
    _, content, _ = run(topology, tmp_path, in_batches=True)
    with TopologyTestDriver(topology, state_directory=tmp_path) as driver:
        assert content_of(driver) == content != []


@pytest.mark.parametrize("factory", [SqliteStore, VolatileStore])
def test_a_users_store_goes_back_when_a_batch_fails_and_is_restored_from_its_changelog(
    factory: Any, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    options = (
        Materialized.as_(Stores.custom_key_value_store("own", factory)).with_key_serde(TEXT).with_value_serde(TEXT)
    )
    counted = (
        builder.stream("in", Consumed.with_(TEXT, TEXT)).group_by_key().reduce(lambda one, two: one + two, options)
    )
    counted.to_stream().map_values(lambda _, value: 1 // (value != "12bad")).to(
        "out", Produced.with_(TEXT, LongSerde())
    )
    topology = builder.build()
    with TopologyTestDriver(topology, state_directory=tmp_path / "first") as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        with pytest.raises(ProcessingError, match="ZeroDivisionError"):
            topic.pipe_batch([TestRecord("a", "1", 1), TestRecord("a", "2", 2), TestRecord("a", "bad", 3)])
        assert driver.key_value_store("own").all() == {}
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, TEXT)).group_by_key().reduce(lambda one, two: one + two, options)
    with TopologyTestDriver(builder.build(), state_directory=tmp_path / "first") as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        topic.pipe_batch([TestRecord("a", "1", 1), TestRecord("a", "2", 2), TestRecord("b", "3", 3)])
        content = driver.key_value_store("own").all()
        changelog = driver.changelogs["topology-test-driver-own-changelog"]
        assert content == {"a": "12", "b": "3"}
    spec = StoreSpec(name="own", kind=StoreKind.KEY_VALUE, custom=factory)
    restored = TaskState.open(tmp_path / "elsewhere", [spec])
    stamps = np.array([record.timestamp for record in changelog], dtype=np.int64)
    keys = [record.key for record in changelog if record.key is not None]
    restored.restore_batch("own", keys, [record.value for record in changelog], stamps)
    assert {key.decode(): value.decode() for key, value, _ in restored.key_value_store("own").all()} == content
    restored.close()


NEAR = JoinWindows.of_time_difference_and_grace(10, 5)


def _buffer(name: str, retention: int = 25, size: int = 20, *, duplicates: bool = True) -> StoreSupplier:
    return Stores.in_memory_window_store(name, retention, size, retain_duplicates=duplicates)


def _join(options: StreamJoined) -> FrozenTopology:
    builder = StreamsBuilder()
    one, two = (builder.stream(topic, Consumed.with_(TEXT, TEXT)) for topic in ("one", "two"))
    one.outer_join(two, lambda left, right: f"{left}{right}", NEAR, options).to("out", Produced.with_(TEXT, TEXT))
    return builder.build()


def test_each_side_of_a_join_has_the_store_of_its_supplier_and_the_waiting_records_one_beside_the_first() -> None:
    options = StreamJoined.with_(TEXT, TEXT, TEXT).with_store_name("given").with_this_store_supplier(_buffer("mine"))
    specs = {spec.name: spec for part in _join(options).sub_topologies for spec in part.stores}
    assert {name: spec.backend for name, spec in specs.items()} == {
        "mine": StoreBackend.MEMORY,
        "given-outer-other-join-store": StoreBackend.ROCKSDB,
        "mine-outer-shared-join-store": StoreBackend.MEMORY,
    }
    own = Stores.custom_window_store("own", 25, 20, SqliteStore, retain_duplicates=True)
    with TopologyTestDriver(_join(options.with_other_store_supplier(own))) as driver:
        driver.create_input_topic("one", TEXT, TEXT).pipe_input("k", "1", 5)
        driver.create_input_topic("two", TEXT, TEXT).pipe_batch([TestRecord("k", "2", 6), TestRecord("k", "3", 6)])
        driver.create_input_topic("one", TEXT, TEXT).pipe_input("k", "4", 7)
        assert [value for _, value in driver.create_output_topic("out", TEXT, TEXT).read_key_values()] == [
            "12",
            "13",
            "42",
            "43",
        ]


@pytest.mark.parametrize(
    ("this", "other", "problem"),
    [
        (_buffer("a", duplicates=False), None, "makes a window store without duplicates"),
        (None, Stores.persistent_key_value_store("a"), "makes a key-value store without duplicates"),
        (_buffer("a", retention=26), None, "windows of 20 ms and a retention of 26 ms; the join's are 20 ms and 25 ms"),
        (None, _buffer("a", size=19), "windows of 19 ms"),
        (_buffer("a"), _buffer("a"), "Both sides of the join would keep their records in store 'a'"),
    ],
)
def test_suppliers_that_do_not_fit_a_join_are_refused(
    this: StoreSupplier | None, other: StoreSupplier | None, problem: str
) -> None:
    options = StreamJoined.with_(TEXT, TEXT, TEXT)
    options = options if this is None else options.with_this_store_supplier(this)
    options = options if other is None else options.with_other_store_supplier(other)
    with pytest.raises(TopologyError, match=problem):
        _join(options)


@pytest.mark.parametrize(
    ("kind", "place", "problem"),
    [
        ("key-value", _buffer("s", duplicates=False), "makes a window store; its table needs a key-value store"),
        ("tumbling", Stores.persistent_key_value_store("s"), "The retention of window store 's' is 0 ms"),
        ("tumbling", _buffer("s", 100, 10), "window store that retains duplicates; its table needs a window store"),
        (
            "tumbling",
            _buffer("s", 100, 11, duplicates=False),
            "is for windows of 11 ms; its table has windows of 10 ms",
        ),
        ("tumbling", _buffer("s", 59, 10, duplicates=False), "retention of window store 's' is 59 ms.*need 60 ms"),
        ("sessions", Stores.in_memory_session_store("s", 59), "retention of session store 's' is 59 ms.*need 60 ms"),
        ("sessions", _buffer("s", 100, 10, duplicates=False), "makes a window store; its table needs a session store"),
    ],
)
def test_suppliers_that_do_not_fit_a_table_are_refused(kind: str, place: StoreSupplier, problem: str) -> None:
    stream = StreamsBuilder().stream("in", Consumed.with_(TEXT, TEXT))
    with pytest.raises(TopologyError, match=problem):
        KINDS[kind](stream, Materialized.as_(place))


def test_a_map_for_no_keys_and_a_store_for_joins_in_a_builder_are_refused() -> None:
    with pytest.raises(TopologyError, match="at least 1 key, not 0"):
        Stores.lru_map("s", 0)
    with pytest.raises(TopologyError, match="retains duplicates, which only a join"):
        Stores.window_store_builder(_buffer("s"), TEXT, TEXT)
