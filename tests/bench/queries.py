"""``python -m tests.bench.queries``: latency of interactive queries while the application is at full speed.

The application works off a backlog, and a client (``tests.bench.query_load``) asks at a fixed rate. Broker,
application, query server and client share the machine; with ``--nice -10`` server and client go before the others.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, TypeVar
from uuid import uuid4

import numpy as np
import typer
from confluent_kafka import Producer

from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.topics import TopicSpec
from tests import broker
from tests.application import Application, wait_until
from tests.bench.query_load import Load, prefer
from tests.query_server import QueryServerProcess

_PARTITIONS = 2
_CHUNK_S = 0.1
_T = TypeVar("_T")


def _produce(bootstrap_servers: str, name: str, *, records: int, keys: int, rate: float = float("inf")) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "partitioner": "murmur2_random", "linger.ms": 50, "acks": 1}
        | {"queue.buffering.max.messages": 1_000_000, "compression.type": "lz4"}
    )
    one = (1).to_bytes(8, "big")
    chosen = np.random.default_rng(3).integers(0, keys, records).tolist()
    begin = time.monotonic()
    for number, key in enumerate(chosen):
        if rate != float("inf") and number % int(rate * _CHUNK_S) == 0:
            time.sleep(max(begin + number / rate - time.monotonic(), 0))
        producer.produce(name, one, b"k%d" % key, timestamp=1_000)
        if number % 50_000 == 0:
            producer.poll(0)
            if len(producer) > 500_000:
                producer.flush(60)
    assert producer.flush(120) == 0


def main(
    records: Annotated[int, typer.Option(help="Records of the backlog.")] = 6_000_000,
    keys: Annotated[int, typer.Option(help="Distinct keys.")] = 100_000,
    rate: Annotated[float, typer.Option(help="Gets in a second.")] = 1_000,
    seconds: Annotated[float, typer.Option(help="How long to measure.")] = 15,
    freshness_ms: Annotated[int, typer.Option(help="As of `millrace query-server`.")] = 100,
    nice: Annotated[int, typer.Option(help="As of `millrace query-server`, and the client's priority.")] = 0,
    half: Annotated[bool, typer.Option(help="Measure also at half of the application's speed.")] = False,
) -> None:
    """Prints latencies, and the application's speed without and with queries."""
    run = broker.open_run()
    try:
        with TemporaryDirectory(prefix="millrace-queries-") as directory:
            world = _World(Path(directory), records=records, keys=keys, freshness_ms=freshness_ms, nice=nice)
            try:
                world.measure(rate=rate, seconds=seconds, half=half)
            finally:
                world.close()
    finally:
        broker.close_run(run)


class _World:
    """A broker with a backlog, the application, and its query server."""

    def __init__(self, directory: Path, *, records: int, keys: int, freshness_ms: int, nice: int) -> None:
        self._servers = broker.shared_broker_address()
        prefix = f"q{uuid4().hex[:8]}"
        self._topic, self._records, self._keys, self._nice = f"{prefix}-numbers", records, keys, nice
        KafkaAdmin(self._servers).create_missing([TopicSpec(name=self._topic, partitions=_PARTITIONS)])
        _produce(self._servers, self._topic, records=records, keys=keys)
        self._application = Application(
            self._servers, f"{prefix}-app", "tests.integration.spark.topologies:summing", directory, prefix=prefix
        )
        self._application.config["spark.driver.extraJavaOptions"] = ""
        self._server = QueryServerProcess(self._application, freshness_ms=freshness_ms, nice=nice)

    def close(self) -> None:
        self._server.close()
        self._application.kill()

    def measure(self, *, rate: float, seconds: float, half: bool) -> None:
        server, application = self._server, self._application
        load = Load(server.control.address, server.token, server.process.pid, self._keys)
        application.start_and_wait()
        wait_until(lambda: self._done() > self._records / 10, timeout_s=120, what="a tenth is done")
        alone, _ = self._speed(lambda: time.sleep(seconds))
        prefer(self._nice)
        beside, figures = self._speed(lambda: load.run(rate=rate, seconds=seconds))
        left = self._records - self._done()
        _report(f"application at full speed, {self._keys} keys, nice {self._nice}: {figures.text()}")
        _report(f"application: {alone:.0f} records/s without queries, {beside:.0f} with; {left} records left over")
        application.wait_until_caught_up(300)
        _report(f"application idle: {load.run(rate=rate, seconds=seconds).text()}")
        if half:
            count = int(alone / 2 * (seconds + 10))
            given = {"records": count, "keys": self._keys, "rate": alone / 2}
            sender = multiprocessing.get_context("spawn").Process(
                target=_produce, args=(self._servers, self._topic), kwargs=given
            )
            before = self._done()
            sender.start()
            wait_until(lambda: self._done() > before + alone, timeout_s=60, what="records come")
            beside, figures = self._speed(lambda: load.run(rate=rate, seconds=seconds))
            _report(f"application at {beside:.0f} records/s of {alone:.0f}: {figures.text()}")
            sender.join()

    def _done(self) -> int:
        return sum(self._application.committed().values())

    def _speed(self, during: Callable[[], _T]) -> tuple[float, _T]:
        before, begin = self._done(), time.monotonic()
        result = during()
        return (self._done() - before) / (time.monotonic() - begin), result


def _report(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    typer.run(main)
