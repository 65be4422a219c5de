"""An offset that a broker says it does not have, with librdkafka's own imitation of a cluster."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaError
from structlog.testing import capture_logs

from millrace.errors import OffsetOutOfRangeError
from millrace.kafka.columns import disputed
from millrace.kafka.columns.disputed import AGAIN_S, LIMIT_S, NOT_IN_LOG_LIMIT_S, DisputedOffsets
from millrace.kafka.columns.librdkafka_reader import LibrdkafkaReader
from tests.imitated_cluster import ImitatedCluster
from tests.integration.kafka.columns.reading import READERS, Reading, opened
from tests.records import Record, produce
from tests.waiting import eventually

WHERE = ("orders", 0)


@pytest.fixture(params=READERS)
def open_reading(request: pytest.FixtureRequest, cluster: ImitatedCluster) -> Iterator[Callable[[int], Reading]]:
    made: list[Reading] = []

    def make(start: int) -> Reading:
        made.append(opened(str(request.param), cluster.bootstrap_servers))
        made[-1].reader.assign({WHERE: start})
        return made[-1]

    yield make
    for each in made:
        each.reader.close()


def send(cluster: ImitatedCluster, *values: bytes) -> None:
    produce(cluster.bootstrap_servers, WHERE[0], [Record(b"k", value, 1, partition=0) for value in values])


def test_one_that_the_log_has_is_read_again_and_nothing_is_lost_or_doubled(
    cluster: ImitatedCluster, open_reading: Callable[[int], Reading]
) -> None:
    send(cluster, b"1", b"2", b"3")
    reading = open_reading(0)
    reading.until(lambda: WHERE in reading.got and len(reading.got[WHERE].offsets) == 3)
    cluster.answer_fetches_with(KafkaError.OFFSET_OUT_OF_RANGE, times=3)
    with capture_logs() as logs:
        send(cluster, b"4")
        reading.until(lambda: len(reading.got[WHERE].offsets) == 4)
    assert [each["offset"] for each in logs if "out of range" in each["event"]] == [3]
    assert reading.got[WHERE].values == [b"1", b"2", b"3", b"4"]


def queued(reader: LibrdkafkaReader) -> int:
    """How many records and events the client has for the next poll."""
    return int(reader._library.rd_kafka_queue_length(ctypes.c_void_p(reader._records)))


def test_an_end_that_the_same_poll_brings_settles_nothing(cluster: ImitatedCluster) -> None:
    send(cluster, b"1", b"2", b"3")
    reading = opened("librdkafka", cluster.bootstrap_servers)
    reader = reading.reader
    assert isinstance(reader, LibrdkafkaReader)
    try:
        reader.assign({WHERE: 3})
        # What the client notes of the assignment, and the end of the log.
        eventually(lambda: queued(reader), 2)
        cluster.answer_fetches_with(KafkaError.OFFSET_OUT_OF_RANGE, times=1)
        eventually(lambda: queued(reader), 3)
        assert [(each.position, each.end) for each in reading.poll()] == [(3, 3)]
        send(cluster, b"4")
        reading.until(lambda: reading.got[WHERE].values == [b"4"])
    finally:
        reader.close()


def test_one_that_stays_out_of_range_is_an_error_in_the_end(
    cluster: ImitatedCluster, open_reading: Callable[[int], Reading], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disputed, "LIMIT_S", 1.2)
    send(cluster, b"1", b"2")
    cluster.answer_fetches_with(KafkaError.OFFSET_OUT_OF_RANGE, times=100)
    reading = open_reading(1)
    with pytest.raises(OffsetOutOfRangeError, match="Offset 1 of orders-0"):
        reading.until(lambda: False)
    assert reading.reader.failed == WHERE


def test_one_that_the_log_does_not_have_is_an_error_soon(
    cluster: ImitatedCluster, open_reading: Callable[[int], Reading], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disputed, "NOT_IN_LOG_LIMIT_S", 1.2)
    send(cluster, b"1")
    reading = open_reading(7)
    with pytest.raises(OffsetOutOfRangeError, match="Offset 7 of orders-0"):
        reading.until(lambda: False, limit_s=10)


class TestDeciding:
    def disputed(self, *, log: tuple[int, int] | None) -> tuple[DisputedOffsets, list[float]]:
        now = [100.0]
        return DisputedOffsets(lambda _: log, clock=lambda: now[0]), now

    @pytest.mark.parametrize(
        ("position", "log", "again"),
        [(5, (0, 9), True), (5, (5, 5), True), (5, (6, 9), True), (5, (0, 4), True), (5, None, True)],
    )
    def test_the_log_decides_and_where_nobody_knows_time(
        self, position: int, log: tuple[int, int] | None, again: bool
    ) -> None:
        assert self.disputed(log=log)[0].disputes(WHERE, position) is again

    @pytest.mark.parametrize("log", [(0, 4), (6, 9), (9, 9)])
    def test_a_log_that_does_not_have_it_is_believed_after_a_while(self, log: tuple[int, int]) -> None:
        logs = [log]
        now = [100.0]
        offsets = DisputedOffsets(lambda _: logs[0], clock=lambda: now[0])
        assert offsets.disputes(WHERE, 5)
        now[0] += NOT_IN_LOG_LIMIT_S - 0.1
        assert offsets.disputes(WHERE, 5)
        now[0] += 0.1
        assert not offsets.disputes(WHERE, 5)
        logs[0] = (0, 9)
        assert offsets.disputes(WHERE, 5)

    def test_it_is_asked_for_again_after_a_moment_and_once(self) -> None:
        offsets, now = self.disputed(log=(0, 9))
        assert offsets.disputes(WHERE, 5)
        assert offsets.take_due() == {}
        now[0] += AGAIN_S
        assert offsets.take_due() == {WHERE: 5}
        assert offsets.take_due() == {}

    def test_the_time_counts_from_the_first_answer_and_anew_once_something_came(self) -> None:
        offsets, now = self.disputed(log=(0, 9))
        assert offsets.disputes(WHERE, 5)
        now[0] += LIMIT_S
        assert not offsets.disputes(WHERE, 5)
        assert offsets.disputes(WHERE, 6)
        now[0] += LIMIT_S
        offsets.discard(WHERE)
        assert offsets.disputes(WHERE, 6)
