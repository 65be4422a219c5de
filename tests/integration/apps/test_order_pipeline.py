"""Orders from PostgreSQL through outbox, relay and pipeline, while the relay and the driver are killed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from apps import order_outbox, order_pipeline
from apps.order_outbox import PlacedOrder, place_order
from tests.application import Application, wait_until
from tests.integration.apps.relay import start_relay
from tests.order_decisions import LIMITS, PRICES, decisions
from tests.records import Record, produce, read_topic

ORDERS = 400


def orders() -> list[PlacedOrder]:
    """Orders of which each can be placed, and some cannot be accepted."""
    return [
        PlacedOrder(f"o{number}", f"c{number % 4}", f"p{number % 5 if number % 5 < 3 else number % 3}", number % 4)
        for number in range(ORDERS)
    ]


@pytest.mark.kills
def test_every_order_that_was_placed_is_decided_once(
    shop: psycopg.Connection[Any],
    database: str,
    bootstrap_servers: str,
    make_topic: Callable[..., str],
    make_application: Callable[..., Application],
) -> None:
    products = make_topic(order_pipeline.PRODUCTS, partitions=3, cleanup_policy="compact")
    limits = make_topic(order_pipeline.LIMITS, partitions=2, cleanup_policy="compact")
    accepted = make_topic(order_pipeline.ACCEPTED, partitions=2)
    rejected = make_topic(order_pipeline.REJECTED, partitions=2)
    send(bootstrap_servers, products, {key: {"name": key, "price_cents": price} for key, price in PRICES.items()})
    send(bootstrap_servers, limits, {key: {"limit_cents": limit} for key, limit in LIMITS.items()})
    application = make_application("tests.integration.apps.topologies:orders", "orders")
    application.config["ensure.explicit.internal.resource.naming"] = True
    application.start_and_wait()
    application.wait_until_caught_up()

    def decided() -> int:
        return len(read_topic(bootstrap_servers, accepted)) + len(read_topic(bootstrap_servers, rejected))

    relay = start_relay(database, bootstrap_servers)
    with ThreadPoolExecutor(1) as writer:
        placing = writer.submit(place, shop, orders()[: ORDERS // 2])
        wait_until(lambda: decided() > 0, timeout_s=120, what="the first decision")
        relay.kill()
        relay.wait()
        placing.result()
    application.kill()
    place(shop, orders()[ORDERS // 2 :])
    relay = start_relay(database, bootstrap_servers)
    application.start_and_wait()
    wait_until(lambda: decided() >= ORDERS, timeout_s=120, what=f"{ORDERS} decisions")
    relay.terminate()
    assert relay.wait(30) == 0
    application.wait_until_caught_up()

    placed = [json.loads(record.value or b"") for record in read_topic(bootstrap_servers, order_outbox.TOPIC)]
    assert sorted(order["order_id"] for order in placed) == sorted(order.order_id for order in orders())
    found = outcomes(bootstrap_servers, accepted) + outcomes(bootstrap_servers, rejected)
    assert len(found) == ORDERS
    expected = decisions(placed)
    assert dict(found) == expected
    assert len(set(expected.values())) == 4
    assert application.stop() == 0


def place(shop: psycopg.Connection[Any], some: Sequence[PlacedOrder]) -> None:
    for order in some:
        place_order(shop, order)


def send(bootstrap_servers: str, topic: str, rows: dict[str, dict[str, Any]]) -> None:
    produce(bootstrap_servers, topic, [Record(key.encode(), json.dumps(row).encode()) for key, row in rows.items()])


def outcomes(bootstrap_servers: str, topic: str) -> list[tuple[str, str]]:
    values = [json.loads(record.value or b"") for record in read_topic(bootstrap_servers, topic)]
    return [(value["order_id"], value["reason"] or "accepted") for value in values]
