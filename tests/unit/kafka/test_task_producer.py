from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from confluent_kafka import KafkaError, KafkaException

from millrace.errors import (
    BrokerUnavailableError,
    MillraceError,
    OperationError,
    PreflightError,
    TaskMigratedError,
    TransactionAbortedError,
)
from millrace.kafka import producer as producer_module
from millrace.kafka.producer import TaskProducer
from millrace.kafka.record_limits import TopicLimits
from millrace.kafka.refusals import RecordsRefusedError
from millrace.metrics import TransactionOutcome

Fault = Callable[[], BaseException]


def _error(code: int, *, fatal: bool = False, retriable: bool = False, abort: bool = False) -> KafkaException:
    return KafkaException(KafkaError(code, "injected", fatal, retriable, abort))


def retriable() -> KafkaException:
    return _error(KafkaError.CONCURRENT_TRANSACTIONS, retriable=True)


def needs_abort() -> KafkaException:
    return _error(KafkaError.INVALID_TXN_STATE, abort=True)


def needs_abort_and_claims_to_be_retriable() -> KafkaException:
    return _error(KafkaError.INVALID_TXN_STATE, retriable=True, abort=True)


def fenced() -> KafkaException:
    return _error(KafkaError._FENCED, fatal=True, retriable=True, abort=True)


class FakeClient:
    """A producer of librdkafka whose next calls fail as told; keeps what a broker would have seen."""

    def __init__(self) -> None:
        self.faults: dict[str, list[Fault]] = {}
        self.calls: list[str] = []
        self.open: list[bytes] = []
        self.pending_offsets: list[int] = []
        self.committed: list[bytes] = []
        self.committed_offsets: list[int] = []
        self.room: int | None = None
        self.unsent = 0

    def _call(self, name: str) -> None:
        self.calls.append(name)
        faults = self.faults.get(name)
        if faults:
            raise faults.pop(0)()

    def list_topics(self, topic: str, timeout: float, /) -> None:
        self._call("list_topics")

    def init_transactions(self, timeout: float = 0.0, /) -> None:
        self._call("init")

    def begin_transaction(self) -> None:
        self._call("begin")

    def produce(self, topic: str, value: Any, key: Any, partition: int, *_: Any) -> None:
        if self.room == 0:
            raise BufferError
        self._call("produce")
        self.open.append(value)
        self.room = None if self.room is None else self.room - 1

    def send_offsets_to_transaction(self, positions: Any, group: Any, timeout: float = 0.0, /) -> None:
        self._call("send_offsets")
        self.pending_offsets = [position.offset for position in positions]

    def commit_transaction(self, timeout: float = 0.0, /) -> None:
        self._call("commit")
        self.committed += self.open
        self.committed_offsets += self.pending_offsets
        self.open, self.pending_offsets = [], []

    def abort_transaction(self, timeout: float = 0.0, /) -> None:
        self._call("abort")
        self.open, self.pending_offsets = [], []

    def poll(self, timeout: float = 0.0, /) -> int:
        self._call("poll")
        return 0

    def flush(self, timeout: float = 0.0, /) -> int:
        self._call("flush")
        return self.unsent

    def purge(self) -> None:
        self._call("purge")


def _producer(client: FakeClient, **options: Any) -> TaskProducer:
    return TaskProducer("127.0.0.1:1", transactional_id="app-0_0", client=lambda _: client, **options)


def _batch(producer: TaskProducer, values: list[bytes]) -> None:
    producer.begin()
    producer.send("out", list(values), list(values), np.zeros(len(values), np.int64), partition=0)
    producer.commit({("in", 0): (len(values), "")}, "app")


@pytest.mark.parametrize("call", ["init", "send_offsets", "commit"])
def test_a_retriable_error_repeats_the_same_call_and_commits_once(call: str) -> None:
    """Case E03."""
    client = FakeClient()
    client.faults[call] = [retriable, retriable]
    producer = _producer(client)
    producer.init()
    _batch(producer, [b"a", b"b"])
    assert client.calls.count(call) == 3
    assert (client.committed, client.committed_offsets) == ([b"a", b"b"], [2])
    assert "abort" not in client.calls
    assert producer.is_usable


@pytest.mark.parametrize("fault", [needs_abort, needs_abort_and_claims_to_be_retriable])
@pytest.mark.parametrize("call", ["produce", "send_offsets", "commit"])
def test_an_error_that_requires_an_abort_aborts_and_the_batch_is_written_once_by_the_next_producer(
    call: str, fault: Fault
) -> None:
    """Case E03."""
    client = FakeClient()
    client.faults[call] = [fault]
    producer = _producer(client)
    with pytest.raises(TransactionAbortedError, match="app-0_0"):
        _batch(producer, [b"a", b"b"])
    assert client.calls.count(call) == 1, "the call is not repeated"
    assert client.calls[-1] == "abort"
    assert not producer.is_usable
    _batch(_producer(client), [b"a", b"b"])
    assert (client.committed, client.committed_offsets) == ([b"a", b"b"], [2])


@pytest.mark.parametrize("call", ["init", "begin", "produce", "poll", "flush", "send_offsets", "commit"])
def test_a_fatal_error_discards_the_producer_without_any_further_call(call: str) -> None:
    """Case E03."""
    client = FakeClient()
    client.faults[call] = [fenced]
    producer = _producer(client)
    attempt = producer.init if call == "init" else lambda: _batch(producer, [b"a", b"b"])
    with pytest.raises(TaskMigratedError, match="app-0_0"):
        attempt()
    assert client.calls[-1] == call
    assert not producer.is_usable
    with pytest.raises(OperationError, match="discarded"):
        producer.begin()
    producer.close()
    assert client.calls[-1] == call, "not even closing calls it"
    assert client.committed == []


def test_offsets_that_could_not_be_added_are_never_left_out_of_a_commit() -> None:
    """Case E03."""
    client = FakeClient()
    client.faults["send_offsets"] = [retriable] * 10_000
    producer = _producer(client, timeout_s=0.2)
    with pytest.raises(BrokerUnavailableError, match="adding offsets of group app"):
        _batch(producer, [b"a"])
    assert "commit" not in client.calls
    assert not producer.is_usable


@pytest.mark.parametrize(
    ("call", "outcomes"), [("init", []), ("send_offsets", [TransactionOutcome.ABORTED]), ("commit", [])]
)
def test_a_call_that_never_returns_is_given_up_with_its_client(
    monkeypatch: pytest.MonkeyPatch, call: str, outcomes: list[TransactionOutcome]
) -> None:
    """librdkafka, when a broker is lost between two requests; whether a commit took place is not known then."""
    monkeypatch.setattr(producer_module, "OVERDUE_S", 0.1)
    client, returns = FakeClient(), threading.Event()
    seen: list[TransactionOutcome] = []

    def hang() -> BaseException:
        returns.wait()
        return needs_abort()

    client.faults[call] = [hang]
    producer = _producer(client, timeout_s=0.1, on_transaction_end=seen.append)
    try:
        with pytest.raises(BrokerUnavailableError, match=r"did not return within 0\.2 s"):
            _init_and_batch(producer)
        assert not producer.is_usable
        producer.close()
        assert client.calls[-1] == call, "nothing more is asked of a client that hangs"
        assert seen == outcomes
    finally:
        returns.set()


def _init_and_batch(producer: TaskProducer) -> None:
    producer.init()
    _batch(producer, [b"a"])


def test_the_thread_of_a_producers_calls_ends_with_it() -> None:
    before = set(threading.enumerate())
    closed, forgotten = _producer(FakeClient()), _producer(FakeClient())
    _init_and_batch(closed)
    _init_and_batch(forgotten)
    started = set(threading.enumerate()) - before
    assert [thread.name for thread in started] == ["transactions-of-app-0_0"] * 2
    closed.close()
    del forgotten
    for thread in started:
        thread.join(60)
        assert not thread.is_alive()


def test_a_fence_after_the_transaction_timeout_is_the_timeout() -> None:
    """Case E04."""
    client = FakeClient()
    client.faults["commit"] = [fenced]
    producer = _producer(client, transaction_timeout_ms=0)
    with pytest.raises(TransactionAbortedError, match="open for longer than 0 ms"):
        _batch(producer, [b"a"])
    assert not producer.is_usable


def test_a_fatal_error_that_is_no_fence_says_what_the_broker_refused() -> None:
    client = FakeClient()
    client.faults["init"] = [lambda: _error(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, fatal=True)]
    with pytest.raises(PreflightError, match="grant the permission"):
        _producer(client).init()


def test_a_queue_that_stays_full_aborts_within_the_time_limit() -> None:
    client = FakeClient()
    client.room = 1
    with pytest.raises(TransactionAbortedError, match="queue stayed full"):
        _batch(_producer(client, timeout_s=0.2), [b"a", b"b", b"c"])
    assert client.calls[-1] == "abort"


def test_nothing_is_sent_or_committed_outside_a_transaction() -> None:
    producer = _producer(FakeClient())
    with pytest.raises(OperationError, match="no open transaction"):
        producer.send("out", [b"k"], [b"v"], np.zeros(1, np.int64), partition=0)
    with pytest.raises(OperationError, match="no open transaction"):
        producer.commit({}, "app")
    producer.begin()
    with pytest.raises(OperationError, match="has an open transaction"):
        producer.begin()


def test_closing_aborts_what_is_open() -> None:
    client = FakeClient()
    with _producer(client) as producer:
        producer.begin()
        producer.send("out", [b"k"], [b"v"], np.zeros(1, np.int64), partition=0)
    assert client.calls[-1] == "abort"
    assert client.committed == []


def test_columns_of_different_lengths_are_refused() -> None:
    producer = _producer(FakeClient())
    producer.begin()
    with pytest.raises(ValueError, match="length"):
        producer.send("out", [b"k"], [b"v", b"w"], np.zeros(2, np.int64), partition=0)


def test_the_take_over_is_tried_also_when_no_connection_came_up_in_time() -> None:
    client = FakeClient()
    client.faults["list_topics"] = [retriable]
    producer = _producer(client, topic_limits={"out": TopicLimits(max_message_bytes=1_000)})
    producer.init()
    assert client.calls == ["list_topics", "init"]


@pytest.mark.parametrize(
    ("call", "fault", "limit_ms", "outcomes"),
    [
        ("nothing", fenced, 60_000, [TransactionOutcome.COMMITTED]),
        ("begin", fenced, 60_000, []),
        ("produce", fenced, 60_000, [TransactionOutcome.FENCED]),
        ("send_offsets", needs_abort, 60_000, [TransactionOutcome.ABORTED]),
        ("send_offsets", retriable, 60_000, [TransactionOutcome.ABORTED]),
        ("commit", fenced, 60_000, [TransactionOutcome.FENCED]),
        ("commit", fenced, 0, [TransactionOutcome.ABORTED]),
        ("commit", needs_abort, 60_000, [TransactionOutcome.ABORTED]),
        ("commit", retriable, 60_000, []),
    ],
)
def test_each_transaction_has_one_outcome_unless_its_commit_got_no_answer(
    call: str, fault: Fault, limit_ms: int, outcomes: list[TransactionOutcome]
) -> None:
    client = FakeClient()
    client.faults[call] = [fault] * 10_000
    seen: list[TransactionOutcome] = []
    producer = _producer(client, timeout_s=0.1, transaction_timeout_ms=limit_ms, on_transaction_end=seen.append)
    with contextlib.suppress(MillraceError):
        _batch(producer, [b"a"])
    producer.close()
    assert seen == outcomes


def test_a_producer_without_transactions_tells_of_none() -> None:
    seen: list[TransactionOutcome] = []
    producer = TaskProducer(
        "127.0.0.1:1", transactional_id=None, client=lambda _: FakeClient(), on_transaction_end=seen.append
    )
    producer.begin()
    producer.abort()
    assert seen == []


def test_a_transaction_in_which_a_record_was_refused_is_not_waited_for() -> None:
    """Case E16: librdkafka sends nothing more of it, so the records that are left would never be acknowledged."""
    client = FakeClient()
    producer = _producer(client)
    producer.begin()
    producer.send("out", [b"k"], [b"v"], np.zeros(1, np.int64), partition=0)
    client.unsent = 5
    client.faults["begin"] = [lambda: _error(KafkaError.INVALID_TIMESTAMP, abort=True)]
    with pytest.raises(RecordsRefusedError, match="INVALID_TIMESTAMP") as refused:
        producer.flush()
    assert (client.calls.count("flush"), client.calls[-1]) == (1, "abort")
    assert (refused.value.records, refused.value.of_topic) == ({}, False)
    assert not producer.is_usable


def test_a_transaction_that_is_well_is_waited_for() -> None:
    client = FakeClient()
    producer = _producer(client, timeout_s=0.01)
    producer.begin()
    client.unsent = 5
    client.faults["begin"] = [lambda: _error(KafkaError._STATE)] * 100
    with pytest.raises(BrokerUnavailableError, match=r"5 records .* were not acknowledged"):
        producer.flush()
