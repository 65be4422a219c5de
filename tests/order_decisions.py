"""What the order pipeline decides, by a ledger that takes one order after the other; shares nothing with it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

PRICES = {"p0": 100, "p1": 250, "p2": 999}
LIMITS = {"c0": 3_000, "c1": 10_000, "c2": 0}


@dataclass
class Ledger:
    """The credit that each customer's accepted orders use."""

    prices: Mapping[str, int] = field(default_factory=lambda: PRICES)
    limits: Mapping[str, int] = field(default_factory=lambda: LIMITS)
    used: dict[str, int] = field(default_factory=dict)

    def decide(self, order: Mapping[str, Any]) -> str:
        """``accepted``, or why not."""
        if not order["quantity"] or order["quantity"] < 0:
            return "the quantity is not above 0"
        if order["customer_id"] is None:
            return "there is no customer"
        if order["product_id"] not in self.prices:
            return "the product is unknown"
        if order["customer_id"] not in self.limits:
            return "the customer has no credit limit"
        total = self.used.get(order["customer_id"], 0) + order["quantity"] * self.prices[order["product_id"]]
        if total > self.limits[order["customer_id"]]:
            return "the credit limit is exceeded"
        self.used[order["customer_id"]] = total
        return "accepted"


def decisions(orders: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The decision about each order, by its number, in the order of their arrival."""
    ledger = Ledger()
    return {order["order_id"]: ledger.decide(order) for order in orders}


def random_orders(seed: int, count: int) -> list[dict[str, Any]]:
    """Orders of which some are wrong in every way that the pipeline knows."""
    chance = random.Random(seed)
    return [
        {
            "order_id": f"o{number}",
            "customer_id": chance.choice((*LIMITS, *LIMITS, "c9", None)),
            "product_id": chance.choice((*PRICES, *PRICES, "p9", None)),
            "quantity": chance.choice((1, 2, 3, 3, 0, -1, None)),
        }
        for number in range(count)
    ]
