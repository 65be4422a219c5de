"""The order pipeline: orders from the shop's outbox are checked, priced, held to their customer's credit, and routed.

Every order leaves once: accepted with its total, or rejected with the reason. Products are a global table, so an order
meets its product whatever its key; limits are a table by customer. The credit that a customer's accepted orders use is
kept by customer, in the order in which the orders arrive: a rejected order uses none of it. ``apps.order_outbox``
brings the orders to the input topic.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millrace.dsl import (
    Branched,
    Consumed,
    Grouped,
    Joined,
    KStream,
    Materialized,
    Produced,
    Repartitioned,
    StreamsBuilder,
)
from millrace.serdes import JsonSerde, StringSerde

PLACED = "placed-orders"
PRODUCTS = "products"
LIMITS = "credit-limits"
ACCEPTED = "accepted-orders"
REJECTED = "rejected-orders"

NO_QUANTITY = "the quantity is not above 0"
NO_CUSTOMER = "there is no customer"
UNKNOWN_PRODUCT = "the product is unknown"
NO_LIMIT = "the customer has no credit limit"
OVER_LIMIT = "the credit limit is exceeded"

_ORDER = {
    "order_id": pa.string(),
    "customer_id": pa.string(),
    "product_id": pa.string(),
    "quantity": pa.int64(),
}
_DECIDED = {**_ORDER, "total_cents": pa.int64(), "reason": pa.string()}
ORDER = JsonSerde(pa.schema(_ORDER))
DECIDED_ORDER = JsonSerde(pa.schema(_DECIDED))
PRODUCT = JsonSerde(pa.schema({"name": pa.string(), "price_cents": pa.int64()}))
LIMIT = JsonSerde(pa.schema({"limit_cents": pa.int64()}))
_LIMITED_ORDER = JsonSerde(pa.schema({**_DECIDED, "limit_cents": pa.int64()}))
_CREDIT = JsonSerde(pa.schema({"used_cents": pa.int64(), "order": pa.struct(_DECIDED)}))


def build(builder: StreamsBuilder) -> None:
    """Adds the topology: placed orders, keyed by order, to accepted and rejected ones, keyed by order."""
    key = StringSerde()
    products = builder.global_table(
        PRODUCTS, Consumed.with_(key, PRODUCT).with_name("products"), materialized=Materialized.as_("products-by-id")
    )
    limits = builder.table(
        LIMITS, Consumed.with_(key, LIMIT).with_name("limits"), materialized=Materialized.as_("limits-by-customer")
    )
    placed = builder.stream(PLACED, Consumed.with_(key, ORDER).with_name("placed"))
    checked = placed.map_values(_checked, named="checked")
    priced = checked.left_join(products, pc.field("product_id"), _priced, named="priced")
    routes = (
        priced.split(named="is-").branch(_is_rejected, Branched.as_("invalid")).default_branch(Branched.as_("valid"))
    )
    limited = (
        routes["is-valid"]
        .select_key(lambda _, order: order["customer_id"], named="by-customer")
        .repartition(Repartitioned.as_("orders-by-customer").with_key_serde(key).with_value_serde(DECIDED_ORDER))
        .left_join(limits, _limited, joined=Joined.with_(key, DECIDED_ORDER).with_name("limited"))
    )
    # Caching is off: each order's decision must go on, not only the last one of a batch.
    decided = (
        limited.group_by_key(Grouped.with_(key, _LIMITED_ORDER).with_name("credit"))
        .aggregate(
            lambda: {"used_cents": 0, "order": None},
            _decide,
            materialized=Materialized.as_("credit-by-customer").with_value_serde(_CREDIT).with_caching_disabled(),
            named="decided",
        )
        .to_stream(named="decisions")
        .map(lambda _, credit: (credit["order"]["order_id"], credit["order"]), named="by-order")
    )
    outcomes = (
        decided.split(named="order-")
        .branch(_is_rejected, Branched.as_("rejected"))
        .default_branch(Branched.as_("accepted"))
    )
    _write(outcomes["order-accepted"], ACCEPTED, "accepted-out")
    _write(routes["is-invalid"].merge(outcomes["order-rejected"], named="rejected"), REJECTED, "rejected-out")


def _write(orders: KStream, topic: str, name: str) -> None:
    orders.to(topic, Produced.with_(StringSerde(), DECIDED_ORDER).with_name(name))


def _checked(_: str | None, order: dict[str, Any]) -> dict[str, Any]:
    reason = None
    if (order["quantity"] or 0) <= 0:
        reason = NO_QUANTITY
    elif order["customer_id"] is None:
        reason = NO_CUSTOMER
    return {**order, "total_cents": None, "reason": reason}


def _priced(order: dict[str, Any], product: dict[str, Any] | None) -> dict[str, Any]:
    if order["reason"] is not None:
        return order
    if product is None:
        return {**order, "reason": UNKNOWN_PRODUCT}
    return {**order, "total_cents": order["quantity"] * product["price_cents"]}


def _is_rejected(_: str | None, order: dict[str, Any]) -> bool:
    return order["reason"] is not None


def _limited(order: dict[str, Any], limit: dict[str, Any] | None) -> dict[str, Any]:
    return {**order, "limit_cents": None if limit is None else limit["limit_cents"]}


def _decide(_: str, order: dict[str, Any], credit: dict[str, Any]) -> dict[str, Any]:
    limit = order["limit_cents"]
    wanted = credit["used_cents"] + order["total_cents"]
    reason = None
    if limit is None:
        reason = NO_LIMIT
    elif wanted > limit:
        reason = OVER_LIMIT
    decided = {**{field: order[field] for field in _ORDER}, "total_cents": order["total_cents"], "reason": reason}
    return {"used_cents": credit["used_cents"] if reason else wanted, "order": decided}
