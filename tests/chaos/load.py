"""A steady stream of records, with out-of-order and late ones, that goes on while things are killed."""

from __future__ import annotations

import random
import threading
import time
from types import TracebackType
from typing import Any

import orjson
from confluent_kafka import Producer

from millrace.kafka.clients import base_settings

_KEYS = 40
_STEP_MS = 8
_DISORDER_MS = 400
_LATE_MS = 3_000
_EVERY_S = 0.1
"""How often what is due is sent, as producers batch: each batch has brokers, tasks and readers work."""


class SteadyLoad:
    """Sends numbered records until it is stopped; a broker that is away only delays them.

    Args:
        bootstrap_servers: the broker.
        topic: where to.
        rate: records per second.
    """

    def __init__(self, bootstrap_servers: str, topic: str, *, rate: int = 250) -> None:
        self.sent = 0
        self._topic = topic
        self._rate = rate
        self._random = random.Random(7)
        self._now_ms = int(time.time() * 1000)
        self._failures: list[Any] = []
        self._stopped = threading.Event()
        self._producer = Producer(
            {
                **base_settings(bootstrap_servers),
                "partitioner": "murmur2_random",
                "enable.idempotence": True,
                "message.timeout.ms": 300_000,
                "linger.ms": 5,
            }
        )
        self._guard = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def __enter__(self) -> SteadyLoad:
        # Whoever is inside finds something that was sent.
        self.send()
        self.flush()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join(10)

    def stop(self) -> int:
        """Stops, waits until the broker has everything, and gives the number of records sent."""
        self._stopped.set()
        self._thread.join(10)
        assert self._producer.flush(60) == 0
        assert not self._failures, self._failures
        return self.sent

    def send(self, *, repeat: int = 1) -> None:
        """Sends the next record; ``repeat`` is how many times its number should stand in the copy."""
        with self._guard:
            self.sent += 1
            self._now_ms += _STEP_MS
            late = self._random.random() < 0.01
            back = _LATE_MS if late else self._random.randrange(_DISORDER_MS)
            self._producer.produce(
                self._topic,
                orjson.dumps({"n": self.sent, "repeat": repeat}),
                f"key-{self._random.randrange(_KEYS)}".encode(),
                timestamp=self._now_ms - back,
                on_delivery=self._delivered,
            )
            self._producer.poll(0)

    def flush(self) -> None:
        """Waits until the broker has what was sent."""
        assert self._producer.flush(60) == 0

    def _run(self) -> None:
        started, before = time.monotonic(), self.sent
        while not self._stopped.wait(_EVERY_S):
            due = before + int((time.monotonic() - started) * self._rate)
            while self.sent < due:
                self.send()

    def _delivered(self, error: Any, _: Any) -> None:
        if error is not None:
            self._failures.append(error)
