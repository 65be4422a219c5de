"""``python -m tests.bench.queries``: latency of interactive queries while the application is at full speed.

The application works off a backlog, and a client sends gets at a fixed rate whatever the answers take, each timed from
the moment it was due: a server that stalls is not spared what would have come meanwhile. Keys are random; one in ten
does not exist.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated
from urllib.parse import urlsplit
from uuid import uuid4

import numpy as np
import typer
from confluent_kafka import Producer

from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.topics import TopicSpec
from tests import broker
from tests.application import Application, wait_until
from tests.query_server import QueryServerProcess

_PARTITIONS = 2
_CONNECTIONS = 32


@dataclass
class Figures:
    """What was measured."""

    latencies_ms: list[float] = field(default_factory=list)
    codes: Counter[int] = field(default_factory=Counter)

    def text(self) -> str:
        """Quantiles and answers in one line."""
        quantiles = np.quantile(self.latencies_ms, [0.5, 0.9, 0.99, 0.999, 1])
        named = zip(("p50", "p90", "p99", "p99.9", "max"), quantiles, strict=True)
        return ", ".join(f"{name} {value:.2f} ms" for name, value in named) + f"; answers {dict(self.codes)}"


class _Load:
    """Sends gets at a rate over connections that stay open."""

    def __init__(self, address: str, token: str, keys: int) -> None:
        parts = urlsplit(address)
        assert parts.hostname is not None
        self._host, self._port = parts.hostname, parts.port
        self._token = token
        self._keys = keys
        self._random = random.Random(7)
        self.figures = Figures()

    async def run(self, *, rate: float, seconds: float) -> None:
        """Sends for so long."""
        due: asyncio.Queue[float | None] = asyncio.Queue()
        senders = [asyncio.create_task(self._send(due)) for _ in range(_CONNECTIONS)]
        begin = time.perf_counter()
        for number in range(int(rate * seconds)):
            at = begin + number / rate
            if (wait := at - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            due.put_nowait(at)
        for _ in senders:
            due.put_nowait(None)
        await asyncio.gather(*senders)

    async def _send(self, due: asyncio.Queue[float | None]) -> None:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        while (at := await due.get()) is not None:
            key = self._random.randrange(int(self._keys * 1.1))
            head = f"GET /stores/sums/get?key=k{key} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self._token}\r\n\r\n"
            writer.write(head.encode())
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            self.figures.latencies_ms.append((time.perf_counter() - at) * 1_000)
            self.figures.codes[int(answer.split(b" ", 2)[1])] += 1
        writer.close()


def _produce(bootstrap_servers: str, name: str, *, records: int, keys: int) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "partitioner": "murmur2_random", "linger.ms": 50, "acks": 1}
        | {"queue.buffering.max.messages": 1_000_000, "compression.type": "lz4"}
    )
    one = (1).to_bytes(8, "big")
    chosen = np.random.default_rng(3).integers(0, keys, records).tolist()
    for number, key in enumerate(chosen):
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
) -> None:
    """Prints latencies, and the application's speed without and with queries."""
    run = broker.open_run()
    try:
        with TemporaryDirectory(prefix="millrace-queries-") as directory:
            _measure(Path(directory), records=records, keys=keys, rate=rate, seconds=seconds, freshness=freshness_ms)
    finally:
        broker.close_run(run)


def _measure(directory: Path, *, records: int, keys: int, rate: float, seconds: float, freshness: int) -> None:
    servers = broker.shared_broker_address()
    prefix = f"q{uuid4().hex[:8]}"
    numbers = f"{prefix}-numbers"
    KafkaAdmin(servers).create_missing([TopicSpec(name=numbers, partitions=_PARTITIONS)])
    _produce(servers, numbers, records=records, keys=keys)
    application = Application(
        servers, f"{prefix}-app", "tests.integration.spark.topologies:summing", directory, prefix=prefix
    )
    server = QueryServerProcess(application, freshness_ms=freshness)
    try:
        application.config["spark.driver.extraJavaOptions"] = ""
        application.start_and_wait()
        load = _Load(server.control.address, server.token, keys)
        wait_until(lambda: sum(application.committed().values()) > records / 10, timeout_s=120, what="a tenth is done")
        alone = _speed(application, lambda: time.sleep(seconds))
        with_queries = _speed(application, lambda: asyncio.run(load.run(rate=rate, seconds=seconds)))
        left = records - sum(application.committed().values())
        sys.stdout.write(
            f"{rate:.0f} gets/s for {seconds:.0f} s, {keys} keys, freshness {freshness} ms: {load.figures.text()}\n"
            f"application: {alone:.0f} records/s without queries, {with_queries:.0f} with; {left} records left over\n"
        )
        idle = _Load(server.control.address, server.token, keys)
        application.wait_until_caught_up(300)
        asyncio.run(idle.run(rate=rate, seconds=seconds))
        sys.stdout.write(f"the same with an idle application: {idle.figures.text()}\n")
    finally:
        server.close()
        application.kill()


def _speed(application: Application, during: Callable[[], None]) -> float:
    before, begin = sum(application.committed().values()), time.monotonic()
    during()
    return (sum(application.committed().values()) - before) / (time.monotonic() - begin)


if __name__ == "__main__":
    typer.run(main)
