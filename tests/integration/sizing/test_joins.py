"""The estimated performance of a join, against a stream-table join that runs."""

from __future__ import annotations

import gc
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from millrace.dsl import Consumed, Produced, StreamsBuilder
from millrace.serdes import StringSerde
from millrace.sizing import JoinCosts, estimate_join_performance
from millrace.testing import TestRecord, TopologyTestDriver

TEXT = StringSerde()
USERS = 5_000
BATCH = 10_000
VALUE = "v" * 50


class Join:
    """A stream-table join whose table has a row for each user."""

    def __init__(self, driver: TopologyTestDriver) -> None:
        self._stream = driver.create_input_topic("in", TEXT, TEXT)
        self._out = driver.create_output_topic("out", TEXT, TEXT)
        users = driver.create_input_topic("users", TEXT, TEXT)
        users.pipe_batch([TestRecord(f"u{number}", f"name{number}", 0) for number in range(USERS)])

    def run(self, records: int, match_share: float) -> tuple[float, int]:
        """Microseconds of processor time per record of the thread that joins, and the joined records."""
        matching = int(100 * match_share)
        batch = [
            TestRecord(f"u{number % USERS}" if number % 100 < matching else f"x{number}", VALUE, 1)
            for number in range(records)
        ]
        # Not the wall clock: other processes take turns with this one. Nor the time of the process: in one that ran
        # tests with brokers before, other threads are busy, and three of them make a record five times as costly.
        # Nor with the collector of garbage: it looks at all that pytest holds, in every third run or so.
        gc.collect()
        gc.disable()
        try:
            began = time.thread_time()
            self._stream.pipe_batch(batch)
            taken = time.thread_time() - began
        finally:
            gc.enable()
        return taken * 1_000_000 / records, len(self._out.read_records())


def topology(*, left: bool) -> TopologyTestDriver:
    builder = StreamsBuilder()
    stream, table = builder.stream("in", Consumed.with_(TEXT, TEXT)), builder.table("users", Consumed.with_(TEXT, TEXT))
    joined = (stream.left_join if left else stream.join)(table, lambda value, name: f"{value} {name}")
    joined.to("out", Produced.with_(TEXT, TEXT))
    return TopologyTestDriver(builder.build())


@pytest.mark.parametrize("left", [False, True], ids=["inner", "left"])
@pytest.mark.parametrize("match_share", [0.0, 0.25, 1.0])
def test_a_join_puts_out_as_many_records_as_estimated(match_share: float, left: bool) -> None:
    estimate = estimate_join_performance(
        records_per_second=2_000, match_share=match_share, table_keys=USERS, entry_bytes=20, left=left
    )
    with topology(left=left) as driver:
        assert Join(driver).run(2_000, match_share)[1] == estimate.output_records_per_second


@pytest.mark.alone
def test_the_capacity_of_a_join_follows_from_the_costs_of_its_ends() -> None:
    """What a record without and one with a partner cost is measured; what a load of some of each takes follows."""
    with topology(left=False) as driver:
        join = Join(driver)
        join.run(BATCH, 0.5)
        # Turn by turn, so that what else the machine does meets all of them.
        runs = [[join.run(BATCH, share)[0] for share in (0.0, 0.4, 1.0)] for _ in range(9)]
    without, measured, with_ = (statistics.median(times) for times in zip(*runs, strict=True))
    costs = JoinCosts(record_us=without, stored_lookup_us=0, cached_lookup_us=0, output_us=max(with_ - without, 0.0))
    estimate = estimate_join_performance(
        records_per_second=1_000, match_share=0.4, table_keys=USERS, entry_bytes=20, costs=costs
    )
    assert estimate.record_us == pytest.approx(measured, rel=0.5)
    assert estimate.capacity_records_per_second == pytest.approx(1_000_000 / estimate.record_us)


@contextmanager
def busy_threads(count: int) -> Iterator[None]:
    """Threads that do nothing to the purpose, as clients do that look for a broker that is gone."""
    ends = threading.Event()

    def spin() -> None:
        while not ends.is_set():
            sum(range(1_000))

    threads = [threading.Thread(target=spin) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ends.set()
        for thread in threads:
            thread.join()


@pytest.mark.alone
@pytest.mark.parametrize("others", [0, 3])
def test_the_costs_that_are_assumed_are_those_of_a_machine_like_this_one(others: int) -> None:
    assumed = estimate_join_performance(records_per_second=1, match_share=0.5, table_keys=USERS, entry_bytes=20)
    with topology(left=False) as driver, busy_threads(others):
        join = Join(driver)
        join.run(BATCH, 0.5)
        measured = statistics.median(join.run(BATCH, 0.5)[0] for _ in range(5))
    assert assumed.record_us / 5 < measured < assumed.record_us * 5
