"""Fraud detection: an alert when an account spends more than its limit within five minutes, once per window.

Payments that cannot be read go to the dead-letter topic (see ``config/apps/fraud-detection.yaml``); payments that come
more than a minute after their window has ended are dropped and counted.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millrace.dsl import Consumed, Materialized, Produced, StreamsBuilder, TimeWindows
from millrace.dsl import aggregators as agg
from millrace.serdes import JsonSerde, StringSerde, Windowed

PAYMENTS = "payments"
ALERTS = "fraud-alerts"

LIMIT_CENTS = 200_000
WINDOW = timedelta(minutes=5)
GRACE = timedelta(minutes=1)

PAYMENT = JsonSerde(
    pa.schema(
        {
            "payment_id": pa.string(),
            "account": pa.string(),
            "amount_cents": pa.int64(),
            "currency": pa.string(),
            "country": pa.string(),
        }
    )
)
ALERT = JsonSerde(
    pa.schema(
        {
            "account": pa.string(),
            "window_start": pa.int64(),
            "window_end": pa.int64(),
            "total_cents": pa.int64(),
            "payments": pa.int64(),
            "payment_id": pa.string(),
        }
    )
)


def build(builder: StreamsBuilder) -> None:
    """Adds the topology: payments, keyed by account, to alerts, keyed by account.

    The key never changes before the window, so everything about one account happens in one task, in the order of its
    partition. Caching is off: then every payment gives the window's new total downstream, and the one that crosses the
    limit is seen whichever way Spark cuts the stream into batches.
    """
    payments = builder.stream(PAYMENTS, Consumed.with_(StringSerde(), PAYMENT).with_name("payments"))
    spending = payments.filter(
        (pc.field("amount_cents") > 0) & pc.field("payment_id").is_valid(), named="without-refunds"
    )
    spent = (
        spending.group_by_key()
        .windowed_by(TimeWindows.of_size_and_grace(WINDOW, GRACE))
        .aggregate(
            agg.struct(
                total=agg.sum_("amount_cents"),
                payments=agg.count(),
                last_amount=agg.last("amount_cents"),
                last_payment=agg.last("payment_id"),
            ),
            materialized=Materialized.as_("spent-per-window").with_caching_disabled(),
            named="spent-per-window",
        )
        .to_stream(named="totals")
    )
    before = pc.field("total") - pc.field("last_amount")
    crossing = spent.filter((pc.field("total") > LIMIT_CENTS) & (before <= LIMIT_CENTS), named="crossing")
    crossing.map(_alert, named="alerts").to(ALERTS, Produced.with_(StringSerde(), ALERT).with_name("alerts-out"))


def _alert(window: Windowed, spent: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    alert = {
        "account": window.key,
        "window_start": window.start,
        "window_end": window.end,
        "total_cents": spent["total"],
        "payments": spent["payments"],
        "payment_id": spent["last_payment"],
    }
    return window.key, alert
