"""The buffer of a suppressed table: its order, what it counts, its changelog, its life over commits and restarts."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.errors import StateError
from millrace.state import (
    BufferedChange,
    BufferedRecordContext,
    ChangelogBatch,
    SuppressionBuffer,
    TaskPosition,
    TaskState,
)
from millrace.topology.stores import StoreKind, StoreSpec
from tests.unit.state.specs import OpenState

BUFFER = StoreSpec(name="held", kind=StoreKind.BUFFER, cached=False)
# What Kafka Streams 4.4 wrote for such a change: see tests/parity/test_suppressing.py for many more.
OF_KAFKA_STREAMS = bytes.fromhex(
    "0000000000000002000000000000000100000002696e0000000000000000ffffffff000000080000000000000001000000080000000000000002"
    "000000000000000a"
)


def at(timestamp: int, **fields: object) -> BufferedRecordContext:
    return BufferedRecordContext(timestamp, 7, "in", 0, **fields)  # type: ignore[arg-type]


def buffer_of(state: TaskState) -> SuppressionBuffer:
    return state.suppression_buffer("held")


def contents(state: TaskState) -> list[tuple[bytes, int, bytes | None]]:
    return [(key, change.time, change.new) for key, change in buffer_of(state).all()]


def drained(state: TaskState) -> ChangelogBatch:
    batches = state.drain_changelog()
    assert len(batches) == 1
    return batches[0]


def test_a_change_has_the_bytes_of_kafka_streams_and_is_read_back() -> None:
    context = BufferedRecordContext(2, 1, "in", 0)
    change = BufferedChange(10, None, (1).to_bytes(8, "big"), (2).to_bytes(8, "big"), context)
    assert change.to_bytes() == OF_KAFKA_STREAMS
    assert BufferedChange.from_bytes(b"k", OF_KAFKA_STREAMS) == change.sized(b"k")


VALUE = st.none() | st.binary(max_size=4)
HEADERS = st.none() | st.lists(st.tuples(st.text(max_size=3), VALUE), min_size=1, max_size=3)


@given(values=st.tuples(VALUE, VALUE, VALUE), headers=HEADERS, topic=st.text(max_size=5), key=st.binary(max_size=3))
def test_every_change_survives_its_bytes(
    values: tuple[bytes | None, bytes | None, bytes | None],
    headers: list[tuple[str, bytes | None]] | None,
    topic: str,
    key: bytes,
) -> None:
    change = BufferedChange(5, *values, BufferedRecordContext(1, 2, topic, 3, headers)).sized(key)
    assert BufferedChange.from_bytes(key, change.to_bytes()) == change


@pytest.mark.parametrize("data", [b"", OF_KAFKA_STREAMS[:20], OF_KAFKA_STREAMS[:-1]])
def test_damaged_bytes_are_told(data: bytes) -> None:
    with pytest.raises(StateError, match="cannot be read, under the key b'k'"):
        BufferedChange.from_bytes(b"k", data)


def test_the_size_counts_key_values_headers_and_the_record_like_kafka_streams() -> None:
    change = BufferedChange(1, b"old", b"old", b"newer", at(1, headers=[("ä𝄞", b"xy"), ("n", None)])).sized(b"key")
    # Time, key, a prior value that the old one shares, new value; timestamp, offset, topic, partition; headers, whose
    # names are counted in Java's characters.
    assert change.size == 8 + 3 + 3 + 5 + (8 + 8 + 2 + 4) + (3 + 2) + 1
    assert BufferedChange(1, None, b"old", None, at(1)).sized(b"key").size == 8 + 3 + 3 + 22


def test_changes_go_by_the_time_of_their_keys_first_one_then_by_key(open_state: OpenState) -> None:
    with_changes = open_state(BUFFER)
    buffer = buffer_of(with_changes)
    for key, time in ((b"b", 5), (b"a", 5), (b"c", 1), (b"c", 9), (b"d", 4)):
        buffer.put(key, time, None, b"%d" % time, at(time))
    assert (len(buffer), buffer.first_time) == (4, 1)
    popped = [buffer.pop() for _ in range(4)]
    assert [(key, change.time, change.new) for key, change in popped] == [
        (b"c", 1, b"9"),
        (b"d", 4, b"4"),
        (b"a", 5, b"5"),
        (b"b", 5, b"5"),
    ]
    assert (len(buffer), buffer.used_bytes, buffer.first_time) == (0, 0, None)


def test_the_prior_value_stays_that_of_the_first_change(open_state: OpenState) -> None:
    buffer = buffer_of(open_state(BUFFER))
    buffer.put(b"k", 1, b"0", b"1", at(1))
    buffer.put(b"k", 2, b"1", b"2", at(2))
    change = buffer.get(b"k")
    assert change is not None
    assert (change.prior, change.old, change.new, change.context.timestamp) == (b"0", b"1", b"2", 2)


def test_the_changelog_has_the_last_state_of_each_key_that_changed(open_state: OpenState) -> None:
    state = open_state(BUFFER)
    buffer = buffer_of(state)
    buffer.put(b"gone", 1, None, b"x", at(1))
    buffer.put(b"kept", 2, None, b"y", at(2))
    buffer.put(b"kept", 3, b"y", b"z", at(3))
    buffer.pop()
    batch = drained(state)
    kept = buffer.get(b"kept")
    assert kept is not None
    assert (batch.keys, batch.values) == ([b"gone", b"kept"], [None, kept.to_bytes()])
    assert batch.headers is not None
    assert list(batch.headers) == [None, [("v", b"\x03")]]
    assert state.drain_changelog() == []


def test_a_buffer_without_a_changelog_logs_nothing(open_state: OpenState) -> None:
    state = open_state(StoreSpec(name="held", kind=StoreKind.BUFFER, logged=False))
    buffer_of(state).put(b"k", 1, None, b"x", at(1))
    assert state.drain_changelog() == []
    state.commit(TaskPosition())


def test_a_rollback_brings_back_what_was_committed(open_state: OpenState) -> None:
    state = open_state(BUFFER)
    buffer = buffer_of(state)
    buffer.put(b"a", 1, None, b"1", at(1))
    buffer.put(b"b", 2, None, b"2", at(2))
    state.drain_changelog()
    state.commit(TaskPosition())
    before = contents(state), buffer.used_bytes
    buffer.pop()
    buffer.put(b"b", 3, b"2", b"3", at(3))
    buffer.put(b"c", 0, None, b"4", at(4))
    assert buffer.get_committed(b"c") is None
    assert [change and change.new for change in map(buffer.get_committed, (b"a", b"b"))] == [b"1", b"2"]
    state.rollback()
    assert (contents(state), buffer.used_bytes) == before
    assert state.drain_changelog() == []
    assert not buffer.has_uncommitted_writes


def test_a_reopened_buffer_goes_on_in_its_order(open_state: OpenState, request: pytest.FixtureRequest) -> None:
    if "memory" in request.node.name:
        pytest.skip("memory does not survive")
    state = open_state(BUFFER)
    buffer = buffer_of(state)
    buffer.put(b"a", 9, None, b"1", at(1, headers=[("h", b"v")]))
    buffer.put(b"b", 2, b"0", None, at(2))
    buffer.put(b"c", 1, None, b"3", at(3))
    buffer.pop()
    state.drain_changelog()
    state.commit(TaskPosition())
    before = list(buffer.all()), buffer.used_bytes
    state.close()
    again = buffer_of(open_state(BUFFER))
    assert (list(again.all()), again.used_bytes, again.first_time) == (*before, 2)


def restore(state: TaskState, batch: ChangelogBatch) -> None:
    state.restore_batch("held", batch.keys, batch.values, batch.timestamps, batch.headers)


def test_a_buffer_is_restored_from_its_changelog(open_state: OpenState) -> None:
    """Case W14: tombstones remove rows, sizes and times are right, and the records are those of before."""
    with closing(TaskState.open(None, [BUFFER])) as source:
        buffer = buffer_of(source)
        batches = []
        for step in range(6):
            buffer.put(b"k%d" % (step % 4), 10 - step, None, b"x" * step, at(step, headers=[("n", b"%d" % step)]))
            if step % 2:
                buffer.pop()
            batches.append(drained(source))
            source.commit(TaskPosition())
        wanted = list(buffer.all()), buffer.used_bytes, buffer.first_time
    state = open_state(BUFFER)
    assert state.restores_headers("held")
    for batch in batches:
        restore(state, batch)
    restored = buffer_of(state)
    assert (list(restored.all()), restored.used_bytes, restored.first_time) == wanted
    assert state.drain_changelog() == []
    state.commit(TaskPosition())


@pytest.mark.parametrize("headers", [None, [None], [[("v", b"\x02")]]])
def test_a_changelog_of_another_version_is_refused(
    open_state: OpenState, headers: list[list[tuple[str, bytes | None]] | None] | None
) -> None:
    state = open_state(BUFFER)
    with pytest.raises(StateError, match="not of version 3"):
        state.restore_batch("held", [b"k"], [OF_KAFKA_STREAMS], np.array([1]), headers)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.integers(0, 9), VALUE, VALUE)),
        st.tuples(st.sampled_from(["pop", "commit", "rollback", "reopen"]), st.none()),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
def test_a_buffer_is_a_dictionary_ordered_by_time_and_key(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, tuple[bytes, int, bytes | None, bytes | None]]]
) -> None:
    directory = tmp_path_factory.mktemp("buffer") / "0_0"
    state = TaskState.open(directory, [BUFFER])
    model: dict[bytes, tuple[int, bytes | None, bytes | None]] = {}
    committed = dict(model)
    try:
        for step, argument in steps:
            buffer = buffer_of(state)
            match step:
                case "put":
                    key, time, old, new = argument
                    buffer.put(key, time, old, new, at(time))
                    known = model.get(key)
                    model[key] = (time if known is None else known[0], old if known is None else known[1], new)
                case "pop" if model:
                    first = min(model, key=lambda key: (model[key][0], key))
                    assert buffer.pop()[0] == first
                    del model[first]
                case "commit":
                    state.drain_changelog()
                    state.commit(TaskPosition())
                    committed = dict(model)
                case "rollback":
                    state.rollback()
                    model = dict(committed)
                case "reopen":
                    state.close()
                    state = TaskState.open(directory, [BUFFER])
                    model = dict(committed)
            buffer = buffer_of(state)
            found = [(key, (change.time, change.prior, change.new)) for key, change in buffer.all()]
            assert found == sorted(model.items(), key=lambda entry: (entry[1][0], entry[0]))
            assert buffer.used_bytes == sum(change.size for _, change in buffer.all())
            assert len(buffer) == len(model)
    finally:
        state.close()
