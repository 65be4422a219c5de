"""The order pipeline against its ledger, in the test driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from apps import order_pipeline
from apps.order_pipeline import ACCEPTED, OVER_LIMIT, REJECTED, UNKNOWN_PRODUCT
from millrace.dsl import StreamsBuilder
from millrace.serdes import StringSerde
from millrace.testing import TestRecord, TopologyTestDriver
from tests.order_decisions import LIMITS, PRICES, decisions, random_orders


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    builder = StreamsBuilder()
    order_pipeline.build(builder)
    with TopologyTestDriver(builder.build(ensure_explicit_naming=True)) as opened:
        products = opened.create_input_topic(order_pipeline.PRODUCTS, StringSerde(), order_pipeline.PRODUCT)
        for product, price in PRICES.items():
            products.pipe_input(product, {"name": product.upper(), "price_cents": price})
        limits = opened.create_input_topic(order_pipeline.LIMITS, StringSerde(), order_pipeline.LIMIT)
        for customer, limit in LIMITS.items():
            limits.pipe_input(customer, {"limit_cents": limit})
        yield opened


def place(driver: TopologyTestDriver, orders: Sequence[dict[str, Any]], *, at_once: bool = False) -> None:
    topic = driver.create_input_topic(order_pipeline.PLACED, StringSerde(), order_pipeline.ORDER)
    records = [TestRecord(order["order_id"], order, number) for number, order in enumerate(orders)]
    for batch in [records] if at_once else [[record] for record in records]:
        topic.pipe_batch(batch)


def outcomes(driver: TopologyTestDriver) -> list[tuple[str, str]]:
    """(order, ``accepted`` or the reason) of both topics, each in its order."""
    found = []
    for name in (ACCEPTED, REJECTED):
        topic = driver.create_output_topic(name, StringSerde(), order_pipeline.DECIDED_ORDER)
        for key, value in topic.read_key_values():
            assert key == value["order_id"]
            assert (value["reason"] is None) == (name == ACCEPTED)
            found.append((key, value["reason"] or "accepted"))
    return found


def order(number: int, product: str, quantity: int, customer: str = "c0") -> dict[str, Any]:
    return {"order_id": f"o{number}", "customer_id": customer, "product_id": product, "quantity": quantity}


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_every_order_leaves_once_as_the_ledger_decides(driver: TopologyTestDriver, seed: int, at_once: bool) -> None:
    orders = random_orders(seed, 300)
    place(driver, orders, at_once=at_once)
    expected = decisions(orders)
    found = outcomes(driver)
    assert len(found) == len(orders)
    assert dict(found) == expected
    assert len(set(expected.values())) == len(Counter(expected.values())) == 6


def test_an_order_that_uses_the_limit_up_is_accepted_and_a_rejected_one_uses_nothing(
    driver: TopologyTestDriver,
) -> None:
    place(driver, [order(1, "p0", 29), order(2, "p0", 2), order(3, "p0", 1), order(4, "p0", 1)])
    assert dict(outcomes(driver)) == {"o1": "accepted", "o2": OVER_LIMIT, "o3": "accepted", "o4": OVER_LIMIT}


def test_a_product_counts_from_the_moment_it_is_there_at_its_price_then(driver: TopologyTestDriver) -> None:
    products = driver.create_input_topic(order_pipeline.PRODUCTS, StringSerde(), order_pipeline.PRODUCT)
    place(driver, [order(1, "new", 1)])
    products.pipe_input("new", {"name": "New", "price_cents": 10})
    place(driver, [order(2, "new", 1)])
    products.pipe_input("new", {"name": "New", "price_cents": 20})
    place(driver, [order(3, "new", 1)])
    products.pipe_input("new", None)
    place(driver, [order(4, "new", 1)])
    topic = driver.create_output_topic(ACCEPTED, StringSerde(), order_pipeline.DECIDED_ORDER)
    assert [(key, value["total_cents"]) for key, value in topic.read_key_values()] == [("o2", 10), ("o3", 20)]
    rejected = driver.create_output_topic(REJECTED, StringSerde(), order_pipeline.DECIDED_ORDER)
    assert [(key, value["reason"]) for key, value in rejected.read_key_values()] == [
        ("o1", UNKNOWN_PRODUCT),
        ("o4", UNKNOWN_PRODUCT),
    ]


def test_a_limit_that_is_raised_counts_for_the_next_order(driver: TopologyTestDriver) -> None:
    limits = driver.create_input_topic(order_pipeline.LIMITS, StringSerde(), order_pipeline.LIMIT)
    place(driver, [order(1, "p0", 31)])
    limits.pipe_input("c0", {"limit_cents": 3_100})
    place(driver, [order(2, "p0", 31)])
    assert dict(outcomes(driver)) == {"o1": OVER_LIMIT, "o2": "accepted"}
