"""The outbox of the orders with a real PostgreSQL and a real broker: every row once, whoever is killed."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from confluent_kafka import KafkaException
from psycopg import Rollback
from psycopg.errors import UniqueViolation

from apps import order_outbox
from apps.order_outbox import OutboxRelay, PlacedOrder, place_order
from tests.application import wait_until
from tests.integration.apps.relay import start_relay
from tests.records import ReadRecord, read_topic

ORDERS = 1_500
ORDERS_OF_A_ROUND = 250
WRITERS = 4


def order(number: int) -> PlacedOrder:
    return PlacedOrder(f"o{number}", f"c{number % 7}", f"p{number % 5}", 1 + number % 3)


def published(bootstrap_servers: str) -> list[ReadRecord]:
    return read_topic(bootstrap_servers, order_outbox.TOPIC)


def ids(records: list[ReadRecord]) -> list[str]:
    return [json.loads(record.value or b"")["order_id"] for record in records]


def test_an_order_and_its_outbox_row_are_there_together_or_not_at_all(shop: psycopg.Connection[Any]) -> None:
    place_order(shop, order(1))
    with pytest.raises(UniqueViolation):
        place_order(shop, order(1))
    with shop.transaction() as undone:
        place_order(shop, order(2))
        raise Rollback(undone)
    assert shop.execute("SELECT order_id FROM orders").fetchall() == [("o1",)]
    assert shop.execute("SELECT key FROM order_outbox").fetchall() == [("o1",)]


def test_a_row_whose_transaction_commits_late_is_not_overlooked(
    shop: psycopg.Connection[Any], database: str, bootstrap_servers: str
) -> None:
    """The slow transaction took its numbers first and commits last: a relay that goes by the numbers loses it."""
    relay = OutboxRelay(database, bootstrap_servers)
    with psycopg.connect(database) as slow, slow.transaction():
        place_order(slow, order(1))
        place_order(shop, order(2))
        assert relay.publish_next() == 0
    assert relay.publish_next() == 2
    assert relay.publish_next() == 0
    assert sorted(ids(published(bootstrap_servers))) == ["o1", "o2"]
    relay.close()


def test_rows_go_out_in_the_order_of_their_transactions(
    shop: psycopg.Connection[Any], database: str, bootstrap_servers: str
) -> None:
    """Numbers, not texts: 100 comes after 99."""
    for transaction, key in ((100, "second"), (99, "first"), (101, "third")):
        row = (str(transaction), key, json.dumps({"order_id": key}))
        shop.execute("INSERT INTO order_outbox (transaction_id, key, payload) VALUES (%s::xid8, %s, %s)", row)
    relay = OutboxRelay(database, bootstrap_servers, batch_rows=1)
    assert [relay.publish_next() for _ in range(4)] == [1, 1, 1, 0]
    assert ids(published(bootstrap_servers)) == ["first", "second", "third"]
    relay.close()


def test_a_relay_that_was_replaced_publishes_nothing_more(
    shop: psycopg.Connection[Any], database: str, bootstrap_servers: str
) -> None:
    place_order(shop, order(1))
    older = OutboxRelay(database, bootstrap_servers)
    newer = OutboxRelay(database, bootstrap_servers)
    with pytest.raises(KafkaException):
        older.publish_next()
    assert newer.publish_next() == 1
    assert ids(published(bootstrap_servers)) == ["o1"]
    older.close()
    newer.close()


@pytest.mark.kills
def test_every_order_is_published_once_while_relays_are_killed(
    shop: psycopg.Connection[Any], database: str, bootstrap_servers: str
) -> None:
    """In each round four writers place orders, and the relay is killed at some moment while it publishes them."""
    chance = random.Random(5)

    def write(numbers: range) -> None:
        with psycopg.connect(database, autocommit=True) as connection:
            for number in numbers:
                place_order(connection, order(number))

    with ThreadPoolExecutor(WRITERS) as writers:
        for begin in range(0, ORDERS, ORDERS_OF_A_ROUND):
            relay = start_relay(database, bootstrap_servers)
            enough = len(published(bootstrap_servers)) + chance.randrange(1, ORDERS_OF_A_ROUND // 2)
            end = begin + ORDERS_OF_A_ROUND
            writing = [writers.submit(write, range(begin + writer, end, WRITERS)) for writer in range(WRITERS)]
            wait_until_published(bootstrap_servers, enough)
            relay.kill()
            relay.wait()
            for one in writing:
                one.result()
    relay = start_relay(database, bootstrap_servers)
    # Those before may have published everything: with one more order it is this relay that is known to be at work.
    place_order(shop, order(ORDERS))
    wait_until_published(bootstrap_servers, ORDERS + 1)
    relay.terminate()
    assert relay.wait(30) == 0
    found = published(bootstrap_servers)
    assert sorted(ids(found)) == sorted(order(number).order_id for number in range(ORDERS + 1))
    for record in found:
        value = json.loads(record.value or b"")
        assert PlacedOrder(**value) == order(int(value["order_id"][1:]))
        assert (record.key or b"").decode() == value["order_id"]


def wait_until_published(bootstrap_servers: str, count: int) -> None:
    wait_until(lambda: len(published(bootstrap_servers)) >= count, timeout_s=60, what=f"{count} orders are published")
