"""The applications of the field over a test's own topics."""

from __future__ import annotations

from apps import click_sessions, order_enrichment, order_pipeline, user_analytics
from millrace.dsl import StreamsBuilder
from tests.application import topic


def analytics(builder: StreamsBuilder) -> None:
    """User analytics, order enrichment and click sessions side by side in one application."""
    for name in ("VIEWS", "ACTIONS", "USERS", "ACTIVITY", "PAGES"):
        setattr(user_analytics, name, topic(getattr(user_analytics, name)))
    for name in ("ORDERS", "CUSTOMERS", "ENRICHED"):
        setattr(order_enrichment, name, topic(getattr(order_enrichment, name)))
    for name in ("CLICKS", "SUMMARIES"):
        setattr(click_sessions, name, topic(getattr(click_sessions, name)))
    user_analytics.build(builder)
    order_enrichment.build(builder)
    click_sessions.build(builder)


def orders(builder: StreamsBuilder) -> None:
    """The order pipeline; its input is the topic to which the relay writes."""
    for name in ("PRODUCTS", "LIMITS", "ACCEPTED", "REJECTED"):
        setattr(order_pipeline, name, topic(getattr(order_pipeline, name)))
    order_pipeline.build(builder)
