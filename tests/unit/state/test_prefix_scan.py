"""Scans by prefix, as joins by a foreign key look for subscriptions; and their store through rollback and restore."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.serdes import StringSerde
from millrace.serdes.subscriptions import (
    CombinedKey,
    CombinedKeySerde,
    Instruction,
    Subscription,
    SubscriptionSerde,
    combined_key_prefix,
)
from millrace.state import TaskPosition, TaskState
from millrace.state.layout import after_prefix
from millrace.state.stores import PrefixScanStore
from tests.unit.state.specs import OpenState, key_value

TEXT = StringSerde()
KEYS, VALUES = CombinedKeySerde(TEXT, TEXT), SubscriptionSerde(TEXT)
SPEC = key_value("subscriptions", key_serde=KEYS, value_serde=VALUES, cached=False)


def store_of(state: TaskState) -> PrefixScanStore:
    store = state.key_value_store("subscriptions")
    assert isinstance(store, PrefixScanStore)
    return store


def put(store: PrefixScanStore, **entries: bytes | None) -> None:
    keys = [key.encode() for key in entries]
    store.put_many(keys, list(entries.values()), np.arange(len(keys), dtype=np.int64) + 10)


def commit(state: TaskState) -> None:
    state.drain_changelog()
    state.commit(TaskPosition())


@pytest.mark.parametrize(
    ("prefix", "after"), [(b"", None), (b"a", b"b"), (b"a\xff", b"b"), (b"\xff\xff", None), (b"a\x00", b"a\x01")]
)
def test_the_end_of_a_prefix_is_the_least_that_is_behind_it(prefix: bytes, after: bytes | None) -> None:
    assert after_prefix(prefix) == after


@given(prefix=st.binary(max_size=3), key=st.binary(max_size=5))
def test_what_begins_with_a_prefix_is_between_it_and_its_end(prefix: bytes, key: bytes) -> None:
    end = after_prefix(prefix)
    assert key.startswith(prefix) == (key >= prefix and (end is None or key < end))


def test_a_scan_sees_uncommitted_writes_over_committed_ones_in_the_order_of_the_keys(open_state: OpenState) -> None:
    state = open_state(SPEC)
    store = store_of(state)
    put(store, a=b"0", ab=b"1", ac=b"2", b=b"3", **{"a\x7f": b"4"})
    commit(state)
    put(store, ab=None, ac=b"20", aa=b"5", bb=b"6")

    found = store.prefix_scan_many([b"a", b"c", b"b", b"ac", b"a"])

    assert [[(key, value) for key, value, _ in entries] for entries in found] == [
        [(b"a", b"0"), (b"aa", b"5"), (b"ac", b"20"), (b"a\x7f", b"4")],
        [],
        [(b"b", b"3"), (b"bb", b"6")],
        [(b"ac", b"20")],
        [(b"a", b"0"), (b"aa", b"5"), (b"ac", b"20"), (b"a\x7f", b"4")],
    ]
    assert found[3][0][2] == 11


def subscribe(store: PrefixScanStore, foreign_key: str, primary_key: str, *, ends: bool = False) -> None:
    value = Subscription(bytes(16), Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE, primary_key, 0)
    key = KEYS.serialize(CombinedKey(foreign_key, primary_key))
    store.put_many([key], [None if ends else VALUES.serialize(value)], np.array([5], dtype=np.int64))


def subscribers(store: PrefixScanStore, foreign_key: str) -> list[str]:
    (found,) = store.prefix_scan_many([combined_key_prefix(foreign_key.encode())])
    return [KEYS.deserialize(key).primary_key for key, _, _ in found]


def test_subscriptions_of_a_failed_batch_are_forgotten(open_state: OpenState) -> None:
    state = open_state(SPEC)
    store = store_of(state)
    subscribe(store, "f", "p1")
    subscribe(store, "ff", "p2")
    commit(state)
    subscribe(store, "f", "p1", ends=True)
    subscribe(store, "f", "p3")
    assert subscribers(store, "f") == ["p3"]

    state.rollback()

    assert (subscribers(store, "f"), subscribers(store, "ff")) == (["p1"], ["p2"])
    assert state.drain_changelog() == []


def test_subscriptions_are_restored_from_their_changelog(open_state: OpenState) -> None:
    state = open_state(SPEC)
    store = store_of(state)
    for key in ("p2", "p1", "p3"):
        subscribe(store, "f", key)
    subscribe(store, "f", "p3", ends=True)
    (change,) = state.drain_changelog()
    state.close()

    restored = TaskState.open(None, [SPEC])
    restored.restore_batch("subscriptions", list(change.keys), list(change.values), change.timestamps)
    restored.commit(TaskPosition())

    assert subscribers(store_of(restored), "f") == ["p1", "p2"]
    entries = {KEYS.deserialize(key): VALUES.deserialize(value) for key, value, _ in store_of(restored).all()}
    assert entries[CombinedKey("f", "p1")].instruction is Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE
    restored.close()
