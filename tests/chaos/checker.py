"""Compares what an application left on the broker and on disk with what has to be there."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson

from millrace.config import StreamsConfig
from millrace.dsl.loading import load_topology
from millrace.kafka.offsets import End, end_offsets
from millrace.state import (
    JoinWindowStore,
    KeyValueStore,
    StateDirectory,
    SuppressionBuffer,
    TaskState,
    VersionedKeyValueStore,
)
from millrace.state.session import session_key
from millrace.state.stores import SessionStore, WindowStore
from millrace.topology.stores import StoreKind, StoreSpec
from millrace.topology.topic_partition import TopicPartition
from tests.application import Application
from tests.chaos.model import Expected, expected_of, long_of, window_of
from tests.records import read_topic

Entries = dict[bytes, tuple[bytes, int]]
"""Value and timestamp by key, in the changelog's layout."""


def check_output(bootstrap_servers: str, prefix: str, *, sent: int) -> Expected:
    """Exactly once: every output topic holds what the model says, in its order, and nothing else."""
    expected = _expected(bootstrap_servers, prefix, sent=sent)
    copies: dict[int, list[int]] = defaultdict(list)
    for record in read_topic(bootstrap_servers, f"{prefix}-copy"):
        copies[record.partition].append(int(record.value or b""))
    for partition, numbers in expected.copy.items():
        _assert_same(copies[partition], numbers, f"copy-{partition}")
    running: dict[bytes | None, list[tuple[int, int]]] = defaultdict(list)
    for record in read_topic(bootstrap_servers, f"{prefix}-running"):
        running[record.key].append((long_of(record.value), record.timestamp))
    assert running.keys() == expected.running.keys()
    for key, counts in expected.running.items():
        _assert_same(running[key], counts, f"running count of {key!r}")
    _check_folds(bootstrap_servers, prefix, expected)
    buckets: dict[bytes | None, list[int]] = defaultdict(list)
    for record in read_topic(bootstrap_servers, f"{prefix}-buckets"):
        buckets[record.key].append(long_of(record.value))
    assert buckets.keys() == expected.buckets.keys()
    for bucket, count in expected.buckets.items():
        _assert_same(buckets[bucket], list(range(1, count + 1)), f"running count of {bucket!r}")
    return expected


def check_output_has_everything(bootstrap_servers: str, prefix: str, *, sent: int) -> int:
    """At least once: nothing is missing.

    Returns:
        How many records there are above what exactly once would have written.
    """
    expected = _expected(bootstrap_servers, prefix, sent=sent)
    copies: Counter[int] = Counter(
        int(record.value or b"") for record in read_topic(bootstrap_servers, f"{prefix}-copy")
    )
    wanted = {number for numbers in expected.copy.values() for number in numbers}
    assert copies.keys() == wanted, sorted(wanted - copies.keys())[:20]
    surplus = sum(copies.values()) - len(copies)
    for name, counts in (
        ("running", {key: len(each) for key, each in expected.running.items()}),
        ("buckets", expected.buckets),
    ):
        reached: dict[bytes | None, int] = {}
        for record in read_topic(bootstrap_servers, f"{prefix}-{name}"):
            reached[record.key] = max(reached.get(record.key, 0), long_of(record.value))
            surplus += 1
        surplus -= sum(counts.values())
        short = {key: (reached.get(key), count) for key, count in counts.items() if reached.get(key, 0) < count}
        assert not short, f"{name}: {short}"
    windows = {window_of(record.key) for record in read_topic(bootstrap_servers, f"{prefix}-folds")}
    assert windows == expected.folds.keys()
    return surplus


def check_stores(application: Application, committed: Mapping[TopicPartition, int]) -> int:
    """Every store of a stopped application equals a replay of its changelog, and stands for its committed offsets.

    Returns:
        How many entries that were.
    """
    config = StreamsConfig.from_mapping({"application.id": application.application_id, **application.config})
    entries = 0
    for sub_topology in load_topology(application.module, config).sub_topologies:
        if not sub_topology.stores:
            continue
        tasks = StateDirectory(config.state_dir).tasks(config.application_id)
        partitions = [partition for number, partition in tasks if number == sub_topology.number]
        assert partitions, f"sub-topology {sub_topology.number} has no state directory"
        changelogs = {store.name: _changelogs(application, store) for store in sub_topology.stores}
        for partition in partitions:
            directory = StateDirectory(config.state_dir).task(config.application_id, sub_topology.number, partition)
            found, inputs = _stored(directory, sub_topology.stores)
            assert inputs.items() <= committed.items(), f"{directory.name}: {inputs} of {committed}"
            for name, stored in found.items():
                replayed = changelogs[name].get(partition, {})
                differing = {
                    key: (stored.get(key), replayed.get(key))
                    for key in stored.keys() | replayed.keys()
                    if stored.get(key) != replayed.get(key)
                }
                assert not differing, f"store {name} of {directory.name} and its changelog: {_some(differing)}"
                entries += len(stored)
    assert entries
    return entries


def check_everything_is_committed(application: Application, committed: Mapping[TopicPartition, int]) -> None:
    """The committed offsets of all input partitions are the ends of the logs, transaction markers included."""
    assert committed == end_offsets(application.admin, list(committed), End.HIGH_WATERMARK)


def _expected(bootstrap_servers: str, prefix: str, *, sent: int) -> Expected:
    """The model's output for the first ``sent`` records of the load."""
    records = [
        record
        for record in read_topic(bootstrap_servers, f"{prefix}-in")
        if orjson.loads(record.value or b"")["n"] <= sent
    ]
    assert len(records) == sent, "the load itself is not what was sent"
    return expected_of(records)


def _check_folds(bootstrap_servers: str, prefix: str, expected: Expected) -> None:
    """With a cache some steps are left out, but none comes twice or before an earlier one, and the last comes."""
    seen: dict[tuple[bytes, int], list[int]] = defaultdict(list)
    for record in read_topic(bootstrap_servers, f"{prefix}-folds"):
        seen[window_of(record.key)].append(long_of(record.value))
    assert seen.keys() == expected.folds.keys()
    for window, values in seen.items():
        steps = expected.folds[window]
        strangers = [value for value in values if value not in steps]
        assert not strangers, f"{window}: folds of other records: {strangers}"
        indices = [steps.index(value) for value in values]
        assert indices == sorted(set(indices)), f"{window}: {indices}"
        assert indices[-1] == len(steps) - 1, f"{window}: {indices} of {len(steps)} steps"


def _changelogs(application: Application, store: StoreSpec) -> dict[int, Entries]:
    topic = store.changelog_topic(application.application_id)
    assert topic is not None
    replayed: dict[int, Entries] = defaultdict(dict)
    for record in read_topic(application.bootstrap_servers, topic):
        assert record.key is not None
        if record.value is None:
            replayed[record.partition].pop(record.key, None)
        else:
            # What waits in a buffer has its own timestamp; that of the changelog's record is the producer's clock.
            timestamp = 0 if store.kind is StoreKind.BUFFER else record.timestamp
            replayed[record.partition][record.key] = (record.value, timestamp)
    return replayed


def _stored(directory: Path, specs: tuple[StoreSpec, ...]) -> tuple[dict[str, Entries], dict[tuple[str, int], int]]:
    state = TaskState.open(directory, specs)
    try:
        return {spec.name: _entries(state.store(spec.name)) for spec in specs}, dict(state.position.inputs)
    finally:
        state.close()


def _entries(
    store: KeyValueStore | WindowStore | JoinWindowStore | SessionStore | SuppressionBuffer | VersionedKeyValueStore,
) -> Entries:
    if isinstance(store, SuppressionBuffer):
        return {key: (change.to_bytes(), 0) for key, change in store.all()}
    if isinstance(store, WindowStore):
        return {
            key + start.to_bytes(8, "big") + bytes(4): (value, timestamp)
            for key, start, value, timestamp in store.all()
        }
    if isinstance(store, SessionStore):
        return {session_key(key, at.start, at.end): (at.value, at.timestamp) for key, at in store.all()}
    return {key: (value, timestamp) for key, value, timestamp in store.all()}


def _assert_same(found: Sequence[object], wanted: Sequence[object], what: str) -> None:
    if found == wanted:
        return
    pairs = zip(found, wanted, strict=False)
    row = next((row for row, (one, other) in enumerate(pairs) if one != other), min(len(found), len(wanted)))
    raise AssertionError(
        f"{what}: {len(found)} records, {len(wanted)} expected; they differ from record {row} on: "
        f"{found[row : row + 8]} instead of {wanted[row : row + 8]}"
    )


def _some(differing: Mapping[bytes, object]) -> str:
    return f"{len(differing)} entries differ, for example {list(differing.items())[:5]}"
