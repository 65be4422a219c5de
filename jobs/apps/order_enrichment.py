"""Orders with their customers: each order gets its customer's name, tier and country, or ``UNKNOWN``.

Orders are keyed by order, customers by customer, so orders go through a repartition topic first. An order is never
held back or lost because its customer is not there (yet), or was deleted.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millrace.dsl import Consumed, Joined, Materialized, Produced, Repartitioned, StreamsBuilder
from millrace.serdes import JsonSerde, StringSerde

ORDERS = "orders"
CUSTOMERS = "customers"
ENRICHED = "enriched-orders"

UNKNOWN = "UNKNOWN"

ORDER = JsonSerde(pa.schema({"order_id": pa.string(), "customer_id": pa.string(), "amount_cents": pa.int64()}))
CUSTOMER = JsonSerde(pa.schema({"name": pa.string(), "tier": pa.string(), "country": pa.string()}))
ENRICHED_ORDER = JsonSerde(
    pa.schema(
        {
            "order_id": pa.string(),
            "customer_id": pa.string(),
            "amount_cents": pa.int64(),
            "name": pa.string(),
            "tier": pa.string(),
            "country": pa.string(),
        }
    )
)


def build(builder: StreamsBuilder) -> None:
    """Adds the topology: orders and customers to enriched orders, keyed by order."""
    key = StringSerde()
    customers = builder.table(
        CUSTOMERS,
        Consumed.with_(key, CUSTOMER).with_name("customers"),
        materialized=Materialized.as_("customers-by-id"),
    )
    orders = builder.stream(ORDERS, Consumed.with_(key, ORDER).with_name("orders"))
    by_customer = orders.select_key(_customer, named="by-customer").repartition(
        Repartitioned.as_("orders-by-customer").with_key_serde(key).with_value_serde(ORDER)
    )
    by_customer.left_join(
        customers, _with_customer, joined=Joined.with_(key, ORDER).with_name("with-customer")
    ).select_key(pc.field("order_id"), named="by-order").to(
        ENRICHED, Produced.with_(key, ENRICHED_ORDER).with_name("enriched-out")
    )


def _customer(_key: str | None, order: dict[str, Any]) -> str:
    """An order without a customer has the key of one who does not exist: null keys would be dropped."""
    return order["customer_id"] or UNKNOWN


def _with_customer(order: dict[str, Any], customer: dict[str, Any] | None) -> dict[str, Any]:
    known = customer or {}
    return {**order, **{field: known.get(field) or UNKNOWN for field in ("name", "tier", "country")}}
