"""Generated payments: skewed accounts, out-of-order and late records, now and then a poison message.

``python -m apps.payments --bootstrap-servers localhost:9092 --rate 500`` streams them until it is interrupted.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

TOPIC = "payments"
_COUNTRIES = ("DE", "FR", "PL", "ES", "PT", "NL", "US")
_WINDOW_AND_GRACE_MS = 360_000
_POISON = (b"", b"{", b"null", b"[]", b"not json at all", b"\xff\xfe\x00", b'{"payment_id":7,"amount_cents":1}')


@dataclass(frozen=True)
class Payment:
    """A record to be sent: key and value bytes, and event time in milliseconds."""

    key: bytes | None
    value: bytes
    timestamp: int


@dataclass(frozen=True, kw_only=True)
class Mix:
    """The mix of a stream of payments; shares are between 0 and 1.

    Args:
        accounts: number of accounts; few of them make most payments.
        out_of_order: share of payments up to half a minute old.
        late: share of payments older than any window that is still open.
        poison: share of messages that are no payments.
        refunds: share of payments with an amount below zero.
    """

    accounts: int = 2_000
    out_of_order: float = 0.1
    late: float = 0.005
    poison: float = 0.001
    refunds: float = 0.02


def generate(seed: int, clock: Callable[[], int], mix: Mix | None = None) -> Iterator[Payment]:
    """Payments without end; the same seed and clock give the same ones.

    Args:
        seed: of the random numbers.
        clock: the present moment, milliseconds; asked once for each payment.
        mix: what the stream is made of.
    """
    mix = mix or Mix()
    chance = random.Random(seed)
    number = 0
    while True:
        number += 1
        # A heavy tail: the first accounts pay often, most rarely.
        account = f"account-{min(int(chance.paretovariate(0.6)), mix.accounts):05d}"
        timestamp = clock()
        dice = chance.random()
        if dice < mix.late:
            timestamp -= _WINDOW_AND_GRACE_MS + chance.randrange(600_000)
        elif dice < mix.late + mix.out_of_order:
            timestamp -= chance.randrange(30_000)
        timestamp = max(timestamp, 0)
        if chance.random() < mix.poison:
            yield Payment(account.encode(), chance.choice(_POISON), timestamp)
            continue
        amount = max(1, int(chance.lognormvariate(7.5, 1.2)))
        if chance.random() < mix.refunds:
            amount = -amount
        document = {
            "payment_id": f"{seed}-{number}",
            "account": account,
            "amount_cents": amount,
            "currency": "EUR",
            "country": chance.choice(_COUNTRIES),
        }
        yield Payment(account.encode(), json.dumps(document).encode(), timestamp)


class PaymentStream:
    """Sends generated payments to a broker at a steady rate.

    Args:
        bootstrap_servers: comma-separated ``host:port``.
        topic: where they go.
        rate: payments per second.
        seed: of the random numbers.
        mix: what the stream is made of.
    """

    def __init__(
        self, bootstrap_servers: str, *, topic: str = TOPIC, rate: float = 500, seed: int = 1, mix: Mix | None = None
    ) -> None:
        from confluent_kafka import Producer

        self.sent = 0
        """How many payments the broker has acknowledged."""
        self.failed: list[str] = []
        self._topic = topic
        self._rate = rate
        self._payments = generate(seed, lambda: int(time.time() * 1000), mix)
        # Kafka's own partitioner, which librdkafka does not take by default: keys then land where Java puts them.
        # Idempotence keeps the order of a partition and sends nothing twice when the broker restarts.
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "partitioner": "murmur2_random",
                "enable.idempotence": True,
                "linger.ms": 20,
                # Errors only: what it tries again by itself, as the coordinator's start, is no news.
                "log_level": 3,
            }
        )

    def run(self, stop: threading.Event) -> None:
        """Sends until ``stop`` is set, then waits until everything is acknowledged.

        Raises:
            RuntimeError: the broker did not take some payments; what became of them is unknown.
        """
        begin, count = time.monotonic(), 0
        while not stop.wait(0.05):
            due = int((time.monotonic() - begin) * self._rate)
            while count < due:
                self._send(next(self._payments))
                count += 1
            self._producer.poll(0)
        unsent = self._producer.flush(30)
        if unsent or self.failed:
            raise RuntimeError(f"{unsent + len(self.failed)} payments were not sent: {self.failed[:3]}")

    def _send(self, payment: Payment) -> None:
        def delivered(error: Any, _: Any) -> None:
            if error is not None:
                self.failed.append(str(error))
            else:
                self.sent += 1

        while True:
            try:
                self._producer.produce(
                    self._topic, payment.value, payment.key, timestamp=payment.timestamp, on_delivery=delivered
                )
            except BufferError:
                self._producer.poll(0.1)
            else:
                return


def main() -> None:
    """Streams payments until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m apps.payments", description="Streams generated payments.")
    parser.add_argument("--bootstrap-servers", required=True, help="host:port of the broker")
    parser.add_argument("--topic", default=TOPIC)
    parser.add_argument("--rate", type=float, default=500, help="payments per second")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    stream = PaymentStream(options.bootstrap_servers, topic=options.topic, rate=options.rate, seed=options.seed)
    stream.run(stop)
    sys.stderr.write(f"{stream.sent} payments sent\n")


if __name__ == "__main__":
    main()
