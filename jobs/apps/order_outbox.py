"""Orders in PostgreSQL and their way to Kafka: a transactional outbox whose rows are each published exactly once.

An order and its outbox row are written in one transaction of the database. The relay publishes the rows in the order in
which their transactions can be known to be complete, and writes how far it came to a compacted topic in the same Kafka
transaction: killed at any moment, the next relay goes on exactly where the last committed one stopped. Two relays
cannot publish side by side, as the later one fences the earlier.

``python -m apps.order_outbox --database "host=localhost dbname=shop" --bootstrap-servers localhost:9092`` runs one.
Source of the pattern: https://microservices.io/patterns/data/transactional-outbox.html
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import psycopg
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

TOPIC = "placed-orders"
POSITIONS = "order-outbox-positions"
RELAY = "order-outbox"

SCHEMA = """
CREATE TABLE orders (
    order_id text PRIMARY KEY,
    customer_id text NOT NULL,
    product_id text NOT NULL,
    quantity bigint NOT NULL
);
CREATE TABLE order_outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    transaction_id xid8 NOT NULL DEFAULT pg_current_xact_id(),
    key text NOT NULL,
    payload text NOT NULL
);
CREATE INDEX order_outbox_place ON order_outbox (transaction_id, id);
"""

# Numbers are given out before transactions commit, so a row may appear after one with a higher number was read. Only
# the transactions below every one that still runs are complete.
_NEXT_ROWS = """
SELECT transaction_id::text AS number, id, key, payload FROM order_outbox
WHERE (transaction_id, id) > (%s::xid8, %s) AND transaction_id < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY transaction_id, id LIMIT %s
"""
_IDLE_S = 0.1
_READ_LIMIT_S = 30.0


@dataclass(frozen=True)
class PlacedOrder:
    """The order of a customer."""

    order_id: str
    customer_id: str
    product_id: str
    quantity: int


@dataclass(frozen=True)
class OutboxPosition:
    """The last published row: its transaction, and its number within that."""

    transaction_id: int = 0
    id: int = 0


def place_order(connection: psycopg.Connection[Any], order: PlacedOrder) -> None:
    """Writes an order and its outbox row in one transaction.

    Raises:
        psycopg.Error: the database refused one of them; then neither is there.
    """
    with connection.transaction():
        connection.execute(
            "INSERT INTO orders VALUES (%s, %s, %s, %s)",
            (order.order_id, order.customer_id, order.product_id, order.quantity),
        )
        connection.execute(
            "INSERT INTO order_outbox (key, payload) VALUES (%s, %s)", (order.order_id, json.dumps(asdict(order)))
        )


class OutboxRelay:
    """Publishes outbox rows. Any error ends it; a new one goes on from the last committed position.

    Args:
        database: PostgreSQL's connection string.
        bootstrap_servers: comma-separated ``host:port``.
        batch_rows: how many rows go into one transaction at most.
    """

    def __init__(self, database: str, bootstrap_servers: str, *, batch_rows: int = 500) -> None:
        self._batch_rows = batch_rows
        self._database = psycopg.connect(database, autocommit=True)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "transactional.id": RELAY,
                "partitioner": "murmur2_random",
                "linger.ms": 5,
            }
        )
        # First the fence: only then is the position that we read the last one that anybody commits.
        self._producer.init_transactions(60)
        self.position = read_position(bootstrap_servers)

    def run(self, stop: threading.Event) -> None:
        """Publishes until ``stop`` is set.

        Raises:
            KafkaException: the broker refused something, or another relay took over.
            psycopg.Error: the database cannot be read.
        """
        while not stop.is_set():
            if not self.publish_next():
                stop.wait(_IDLE_S)

    def publish_next(self) -> int:
        """Publishes the next rows in one transaction, and says how many they were."""
        parameters = (str(self.position.transaction_id), self.position.id, self._batch_rows)
        rows = self._database.execute(_NEXT_ROWS, parameters).fetchall()
        if rows:
            self._publish(rows)
        return len(rows)

    def close(self) -> None:
        """Leaves the database; what was not committed is aborted by the next relay."""
        self._database.close()

    def _publish(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self._producer.begin_transaction()
        for _, _, key, payload in rows:
            self._produce(TOPIC, key, payload)
        position = OutboxPosition(int(rows[-1][0]), rows[-1][1])
        self._produce(POSITIONS, RELAY, json.dumps(asdict(position)))
        while True:
            try:
                self._producer.commit_transaction(60)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                self.position = position
                return

    def _produce(self, topic: str, key: str, value: str) -> None:
        while True:
            try:
                self._producer.produce(topic, value.encode(), key.encode())
            except BufferError:
                self._producer.poll(0.1)
            else:
                return


def read_position(bootstrap_servers: str) -> OutboxPosition:
    """Returns the position of the relays; the beginning if none ever ran.

    Raises:
        KafkaException: the topic of the positions does not exist or cannot be read.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": RELAY,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    try:
        consumer.assign([TopicPartition(POSITIONS, 0, OFFSET_BEGINNING)])
        position = OutboxPosition()
        while True:
            message = consumer.poll(_READ_LIMIT_S)
            if message is None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"{POSITIONS} was not read in time"))
            if (error := message.error()) is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    return position
                raise KafkaException(error)
            position = OutboxPosition(**json.loads(message.value() or b"{}"))
    finally:
        consumer.close()


def main() -> None:
    """Relays until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m apps.order_outbox", description="Publishes the orders' outbox.")
    parser.add_argument("--database", required=True, help="PostgreSQL's connection string")
    parser.add_argument("--bootstrap-servers", required=True, help="host:port of the broker")
    options = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    relay = OutboxRelay(options.database, options.bootstrap_servers)
    try:
        relay.run(stop)
    finally:
        relay.close()
    sys.stderr.write(f"published up to row {relay.position.id}\n")


if __name__ == "__main__":
    main()
