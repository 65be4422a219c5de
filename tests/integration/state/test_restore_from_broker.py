from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from millrace.errors import StateError
from millrace.state import RestoreProgress, TaskPosition, TaskState, restore
from tests.unit.state.specs import key_value, window
from tests.waiting import PATIENCE

MakeTopic = Callable[..., str]
MINUTE = 60_000


@pytest.fixture
def state(tmp_path: Path) -> Iterator[TaskState]:
    opened = TaskState.open(tmp_path / "0_0", [key_value(), window(retention_ms=10 * MINUTE)])
    yield opened
    opened.close()


@pytest.fixture
def transactional(bootstrap_servers: str, unique: str) -> Iterator[Callable[[str], Producer]]:
    made: list[Producer] = []

    def make(name: str) -> Producer:
        producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": f"{unique}-{name}"})
        producer.init_transactions(30)
        made.append(producer)
        return producer

    yield make
    made.clear()


def _write(producer: Producer, topic: str, *records: tuple[bytes, bytes | None]) -> None:
    producer.begin_transaction()
    for key, value in records:
        producer.produce(topic, key=key, value=value, partition=0, timestamp=1_000)
    producer.flush(30)


def _commit(producer: Producer, topic: str, *records: tuple[bytes, bytes | None]) -> None:
    _write(producer, topic, *records)
    producer.commit_transaction(30)


def _wait_for_end(admin_client: AdminClient, topic: str, end: int) -> None:
    """The broker acknowledges the end of a transaction before its marker is in the log."""
    partition = TopicPartition(topic, 0)
    deadline = time.monotonic() + 30 * PATIENCE
    while True:
        offset = admin_client.list_offsets({partition: OffsetSpec.latest()})[partition].result(30).offset
        if offset >= end:
            return
        assert time.monotonic() < deadline, f"{topic} ends at {offset}, not at {end}"


def _restore(state: TaskState, topic: str, bootstrap_servers: str, **options: object) -> RestoreProgress:
    arguments = {"from_offset": None, "stall_timeout_s": 30.0, **options}
    return restore(state, "kv", topic, 0, bootstrap_servers=bootstrap_servers, **arguments)  # type: ignore[arg-type]


def _entries(state: TaskState) -> dict[bytes, bytes]:
    return {key: value for key, value, _ in state.key_value_store("kv").all()}


def test_the_only_record_of_a_changelog_is_restored(
    state: TaskState, make_topic: MakeTopic, transactional: Callable[[str], Producer], bootstrap_servers: str
) -> None:
    """Case S01."""
    topic = make_topic("changelog", cleanup_policy="compact")
    _commit(transactional("p"), topic, (b"k", b"7"))

    progress = _restore(state, topic, bootstrap_servers, from_offset=0, to_offset=1)

    assert state.key_value_store("kv").get(b"k") == (b"7", 1_000)
    assert (progress.records, progress.position, progress.remaining) == (1, 1, 0)


def test_a_changelog_that_ends_in_an_aborted_transaction_is_restored_to_its_end(
    state: TaskState,
    make_topic: MakeTopic,
    admin_client: AdminClient,
    transactional: Callable[[str], Producer],
    bootstrap_servers: str,
) -> None:
    """Case S03."""
    topic = make_topic("changelog")
    producer = transactional("p")
    _commit(producer, topic, (b"a", b"1"))
    _write(producer, topic, (b"a", b"2"), (b"b", b"3"))
    producer.abort_transaction(30)
    _wait_for_end(admin_client, topic, 5)

    started = time.monotonic()
    progress = _restore(state, topic, bootstrap_servers, from_offset=0, to_offset=5)

    assert time.monotonic() - started < 30
    assert (progress.records, progress.position, progress.remaining) == (1, 5, 0)
    assert _entries(state) == {b"a": b"1"}


def test_a_delta_is_replayed_from_the_position_to_exactly_the_committed_offset(
    state: TaskState,
    make_topic: MakeTopic,
    admin_client: AdminClient,
    transactional: Callable[[str], Producer],
    bootstrap_servers: str,
) -> None:
    topic = make_topic("changelog")
    producer = transactional("p")
    for value in (b"1", b"2", b"3"):
        _commit(producer, topic, (b"a", value))
    _wait_for_end(admin_client, topic, 6)
    _restore(state, topic, bootstrap_servers, to_offset=2)
    state.commit(TaskPosition(changelogs={"kv": 2}))
    assert _entries(state) == {b"a": b"1"}

    progress = _restore(state, topic, bootstrap_servers, from_offset=state.position.changelogs["kv"], to_offset=4)

    assert progress.records == 1
    assert _entries(state) == {b"a": b"2"}


def test_a_changelog_truncated_behind_the_position_is_refused_and_then_restored_whole(
    state: TaskState,
    make_topic: MakeTopic,
    admin_client: AdminClient,
    transactional: Callable[[str], Producer],
    bootstrap_servers: str,
) -> None:
    """Case S06."""
    topic = make_topic("changelog")
    producer = transactional("p")
    _commit(producer, topic, *[(b"%03d" % number, b"v") for number in range(119)])
    _wait_for_end(admin_client, topic, 120)
    for deleted in admin_client.delete_records([TopicPartition(topic, 0, 50)]).values():
        deleted.result(30)

    with pytest.raises(StateError, match=f"{topic}, partition 0, of store kv begins at offset 50, the store is at off"):
        _restore(state, topic, bootstrap_servers, from_offset=10, to_offset=120)
    state.wipe()
    progress = _restore(state, topic, bootstrap_servers, to_offset=120)

    assert (progress.records, progress.position) == (69, 120)
    assert sorted(_entries(state)) == [b"%03d" % number for number in range(50, 119)]


def test_committed_state_behind_an_open_transaction_is_not_overlooked(
    state: TaskState,
    make_topic: MakeTopic,
    admin_client: AdminClient,
    transactional: Callable[[str], Producer],
    bootstrap_servers: str,
) -> None:
    """Case S09: the open transaction hides what was committed after it, until the new owner's init aborts it."""
    topic = make_topic("changelog")
    zombie = transactional("zombie")
    _write(zombie, topic, (b"k", b"4"))
    _commit(transactional("p"), topic, (b"k", b"5"))
    _wait_for_end(admin_client, topic, 3)

    with pytest.raises(StateError, match="gave nothing for 2 s at offset 0; offset 3 was committed"):
        _restore(state, topic, bootstrap_servers, to_offset=3, stall_timeout_s=2.0)
    transactional("zombie")
    _restore(state, topic, bootstrap_servers, to_offset=3)

    assert _entries(state) == {b"k": b"5"}


def test_a_missing_changelog_and_a_shorter_one_are_refused(
    state: TaskState,
    make_topic: MakeTopic,
    transactional: Callable[[str], Producer],
    bootstrap_servers: str,
    unique: str,
) -> None:
    topic = make_topic("changelog")
    _commit(transactional("p"), topic, (b"a", b"1"))

    with pytest.raises(StateError, match=r"ends at offset [12], but offset 7 was committed"):
        _restore(state, topic, bootstrap_servers, from_offset=0, to_offset=7)
    with pytest.raises(StateError, match=f"{unique}-absent has no partition 0"):
        _restore(state, f"{unique}-absent", bootstrap_servers, to_offset=1)


def test_a_windowed_store_equals_the_replay_of_the_changelog_it_drained(
    state: TaskState, make_topic: MakeTopic, transactional: Callable[[str], Producer], bootstrap_servers: str
) -> None:
    topic = make_topic("changelog")
    source = TaskState.open(None, [window(retention_ms=10 * MINUTE)])
    producer = transactional("p")
    for round_ in range(3):
        keys = [b"%04d" % number for number in range(2_000)]
        starts = np.full(len(keys), round_ * 7 * MINUTE)
        source.window_store("win").put_many(keys, starts, [b"%d" % round_] * len(keys), starts + 1)
        (batch,) = source.drain_changelog()
        producer.begin_transaction()
        for key, value, timestamp in zip(batch.keys, batch.values, batch.timestamps.tolist(), strict=True):
            producer.produce(topic, key=key, value=value, partition=0, timestamp=timestamp)
        producer.commit_transaction(30)
        source.commit(TaskPosition())
    seen: list[RestoreProgress] = []

    restore(
        state,
        "win",
        topic,
        0,
        from_offset=0,
        to_offset=3 * 2_001 - 1,
        bootstrap_servers=bootstrap_servers,
        on_progress=seen.append,
    )

    assert list(state.window_store("win").all()) == list(source.window_store("win").all())
    assert state.window_store("win").observed_stream_time == 14 * MINUTE
    assert seen[-1].remaining == 0
    assert seen[-1].records == 6_000
