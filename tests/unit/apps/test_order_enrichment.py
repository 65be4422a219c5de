"""Orders with their customers, in the test driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from apps import order_enrichment
from millrace.dsl import StreamsBuilder
from millrace.serdes import StringSerde
from millrace.testing import TopologyTestDriver

ADA = {"name": "Ada", "tier": "gold", "country": "PT"}


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    builder = StreamsBuilder()
    order_enrichment.build(builder)
    with TopologyTestDriver(builder.build(ensure_explicit_naming=True)) as opened:
        yield opened


def order(driver: TopologyTestDriver, number: int, customer: str | None) -> None:
    topic = driver.create_input_topic(order_enrichment.ORDERS, StringSerde(), order_enrichment.ORDER)
    topic.pipe_input(f"o{number}", {"order_id": f"o{number}", "customer_id": customer, "amount_cents": 5}, number)


def customer(driver: TopologyTestDriver, name: str, row: dict[str, Any] | None) -> None:
    topic = driver.create_input_topic(order_enrichment.CUSTOMERS, StringSerde(), order_enrichment.CUSTOMER)
    topic.pipe_input(name, row, 0)


def enriched(driver: TopologyTestDriver) -> list[tuple[str, str | None, tuple[str, str, str]]]:
    topic = driver.create_output_topic(order_enrichment.ENRICHED, StringSerde(), order_enrichment.ENRICHED_ORDER)
    return [
        (key, value["customer_id"], (value["name"], value["tier"], value["country"]))
        for key, value in topic.read_key_values()
    ]


UNKNOWN = ("UNKNOWN", "UNKNOWN", "UNKNOWN")


def test_an_order_gets_its_customer_as_the_table_holds_it_then(driver: TopologyTestDriver) -> None:
    order(driver, 1, "c1")
    customer(driver, "c1", ADA)
    order(driver, 2, "c1")
    customer(driver, "c1", {**ADA, "tier": "silver"})
    order(driver, 3, "c1")
    customer(driver, "c1", None)
    order(driver, 4, "c1")
    assert enriched(driver) == [
        ("o1", "c1", UNKNOWN),
        ("o2", "c1", ("Ada", "gold", "PT")),
        ("o3", "c1", ("Ada", "silver", "PT")),
        ("o4", "c1", UNKNOWN),
    ]


def test_what_the_customer_does_not_say_is_unknown_field_by_field(driver: TopologyTestDriver) -> None:
    customer(driver, "c1", {"name": "Ada", "tier": None, "country": "PT"})
    order(driver, 1, "c1")
    assert enriched(driver) == [("o1", "c1", ("Ada", "UNKNOWN", "PT"))]


def test_an_order_without_a_customer_is_not_lost(driver: TopologyTestDriver) -> None:
    order(driver, 1, None)
    assert enriched(driver) == [("o1", None, UNKNOWN)]
    assert not driver.dropped
