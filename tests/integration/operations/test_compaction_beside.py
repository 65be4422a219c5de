"""Compaction and audit beside a running application: batches go on, and what comes out is exact."""

from __future__ import annotations

import struct
import threading
import time
from collections import Counter
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
from confluent_kafka import Consumer, Producer

from millrace import operations, supervise
from millrace.install.application import Application
from millrace.kafka.offsets import End, committed_offsets, end_offsets
from millrace.operations.audit import audit
from millrace.operations.compaction import CompactionOptions, compact
from tests.application import PREFIX_VARIABLE, wait_until
from tests.integration.operations.worked import Worked
from tests.records import Record, read_topic

RATE = 200
KEYS = 50


class Traffic:
    """Records at a steady rate, and how long each takes from its creation to a reader of the output.

    Args:
        worked: the application.
    """

    def __init__(self, worked: Worked) -> None:
        self.sent: Counter[bytes] = Counter()
        self._worked = worked
        self._latencies: list[tuple[float, float]] = []
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._produce, self._consume)]

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def quantiles(self, begin: float, end: float) -> str:
        """p50 and p99 of what came out in a span of time, and of how many records."""
        values = [latency for at, latency in self._latencies if begin <= at < end]
        assert values, "nothing came out"
        p50, p99 = np.percentile(values, [50, 99])
        return f"p50 {p50:.2f} s, p99 {p99:.2f} s, {len(values)} records, {end - begin:.0f} s"

    def _produce(self) -> None:
        servers = self._worked.config.bootstrap_servers
        producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random", "linger.ms": 5})
        number = 0
        while not self._ending.wait(0.1):
            for _ in range(RATE // 10):
                key = f"key-{number % KEYS}".encode()
                producer.produce(f"{self._worked.prefix}-in", b"x", key, timestamp=int(time.time() * 1000))
                self.sent[key] += 1
                number += 1
            producer.poll(0)
        assert producer.flush(30) == 0

    def _consume(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._worked.config.bootstrap_servers,
                "group.id": f"{self._worked.prefix}-reader",
                "auto.offset.reset": "latest",
                "isolation.level": "read_committed",
            }
        )
        consumer.subscribe([f"{self._worked.prefix}-out"])
        while not self._ending.is_set():
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                now = time.time()
                self._latencies.append((time.monotonic(), now - message.timestamp()[1] / 1000))
        consumer.close()


@pytest.mark.long("a running application beside it; test_compaction.py has the operation, the soak has both")
def test_batches_go_on_and_what_comes_out_is_exact(
    bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = f"b{uuid4().hex[:8]}"
    monkeypatch.setenv(PREFIX_VARIABLE, prefix)
    worked = Worked(bootstrap_servers, prefix, tmp_path, "telling", ["in", "out"], config={"commit.interval.ms": 200})
    ancient = [Record(f"old-{n % 20_000}".encode(), b"x", int(time.time() * 1000)) for n in range(60_000)]
    worked.send("in", ancient)
    supervise.deploy(Application(worked.home, worked.name))
    try:
        supervise.wait_until_ready(Application(worked.home, worked.name))
        with Traffic(worked) as traffic:
            wait_until(lambda: traffic._latencies, timeout_s=120, what="output")
            began = time.monotonic()
            wait_until(lambda: time.monotonic() - began > 20, timeout_s=60, what="a while of traffic alone")
            alone = time.monotonic()
            report = audit(Application(worked.home, worked.name))
            audited = time.monotonic()
            outcome = compact(
                Application(worked.home, worked.name), CompactionOptions(changelogs=False, budget_s=60), reason="a test"
            )
            compacted = time.monotonic()
            wait_until(lambda: time.monotonic() - compacted > 5, timeout_s=60, what="traffic afterwards")
            figures = {
                "alone": traffic.quantiles(began, alone),
                "audit": traffic.quantiles(alone, audited) + f", held {report.held_s:.2f} s",
                "compact": traffic.quantiles(audited, compacted),
            }
        for name, text in figures.items():
            print(f"{name}: {text}")  # noqa: T201 - the measurement
        assert report.agrees, report.differences
        assert report.running
        assert sum(each.keys for each in report.stores) >= 20_000
        assert set(outcome.results["stores"]["tasks"]["0_0"]["bytes_after"]) == {"counts"}

        def caught_up() -> bool:
            topic_partition = (f"{prefix}-in", 0)
            committed = committed_offsets(worked.admin, worked.name, [topic_partition])
            return (
                committed[topic_partition].offset
                >= end_offsets(worked.admin, [topic_partition], End.HIGH_WATERMARK)[topic_partition]
            )

        wait_until(caught_up, timeout_s=120, what="everything is committed")
    finally:
        operations.stop(Application(worked.home, worked.name))
    out = read_topic(bootstrap_servers, f"{prefix}-out")
    last = {record.key: struct.unpack(">q", record.value)[0] for record in out if record.key and record.value}
    expected = Counter(record.key for record in ancient if record.key) + traffic.sent
    assert last == dict(expected)
    assert audit(Application(worked.home, worked.name)).agrees
