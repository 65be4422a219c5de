"""User analytics, order enrichment and click sessions on the broker, over a restart without the state."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from apps import click_sessions, order_enrichment, user_analytics
from millrace.serdes import LongSerde, StringSerde, TimeWindowedSerde
from tests.application import Application
from tests.click_sessions import Click, random_clicks, summaries
from tests.records import ReadRecord, Record, produce, read_topic
from tests.user_activity import HOUR_MS, START, Event, activity, pairs, random_events, users

BEFORE = START - HOUR_MS
"""Time of the tables' rows: they are read before everything else."""
CUSTOMERS = {f"c{number}": {"name": f"n{number}", "tier": "gold", "country": "PT"} for number in range(3)}
ORDERS = {f"o{number}": f"c{number % 4}" for number in range(60)}
EVENTS = random_events(3, 300)
CLICKS = random_clicks(3, 400)
KINDS = {"view": user_analytics.VIEWS, "action": user_analytics.ACTIONS}


class Field:
    """The applications' topics. Those of the analytics have one partition: then its page counts have one order."""

    def __init__(self, bootstrap_servers: str, make_topic: Callable[..., str]) -> None:
        self._bootstrap_servers = bootstrap_servers
        single = (*KINDS.values(), user_analytics.USERS, user_analytics.ACTIVITY, user_analytics.PAGES)
        double = (order_enrichment.ORDERS, order_enrichment.CUSTOMERS, order_enrichment.ENRICHED)
        self._topics = {
            **{name: make_topic(name) for name in single},
            **{name: make_topic(name, partitions=2) for name in (*double, click_sessions.CLICKS)},
            click_sessions.SUMMARIES: make_topic(click_sessions.SUMMARIES, partitions=2),
        }

    def send(self, topic: str, rows: Sequence[tuple[str, Mapping[str, Any], int]]) -> None:
        """Sends (key, value, timestamp) in order."""
        records = [Record(key.encode(), json.dumps(value).encode(), timestamp) for key, value, timestamp in rows]
        produce(self._bootstrap_servers, self._topics[topic], records)

    def send_events(self, events: Sequence[Event]) -> None:
        """Sends views and actions to their topics."""
        for kind, topic in KINDS.items():
            self.send(topic, [(each.user, each.value, each.timestamp) for each in events if each.kind == kind])

    def send_clicks(self, clicks: Sequence[Click]) -> None:
        """Sends clicks."""
        rows = [(each.user, {"page": "/", "purchase_cents": each.purchase_cents}, each.timestamp) for each in clicks]
        self.send(click_sessions.CLICKS, rows)

    def send_orders(self, orders: Sequence[str]) -> None:
        """Sends orders; every fourth is of a customer who is not known."""
        rows = {order: {"order_id": order, "customer_id": ORDERS[order], "amount_cents": 1} for order in orders}
        self.send(order_enrichment.ORDERS, [(order, row, START) for order, row in rows.items()])

    def read(self, topic: str) -> list[ReadRecord]:
        """Every committed record."""
        return read_topic(self._bootstrap_servers, self._topics[topic])


@pytest.mark.long("three applications at once; tests/unit/apps holds each against its model")
def test_three_applications_give_what_their_models_say(
    bootstrap_servers: str, make_topic: Callable[..., str], make_application: Callable[..., Application]
) -> None:
    """Each half is on the broker before the start, so that the inputs of the joins take turns by their times."""
    field = Field(bootstrap_servers, make_topic)
    field.send(user_analytics.USERS, [(user, row, BEFORE) for user, row in users().items()])
    field.send(order_enrichment.CUSTOMERS, [(customer, row, BEFORE) for customer, row in CUSTOMERS.items()])
    application = make_application("tests.integration.apps.topologies:analytics", "analytics")
    application.config["ensure.explicit.internal.resource.naming"] = True
    for half in (0, 1):
        field.send_events(EVENTS[150 * half : 150 * half + 150])
        field.send_clicks(CLICKS[200 * half : 200 * half + 200])
        field.send_orders(list(ORDERS)[30 * half : 30 * half + 30])
        application.start_and_wait()
        application.wait_until_caught_up(120)
        assert application.stop() == 0
        shutil.rmtree(application.state_directory)

    check_activity(field)
    check_pages(field)
    check_enriched(field)
    check_sessions(field)


def check_activity(field: Field) -> None:
    found = [
        ((record.key or b"").decode(), json.loads(record.value or b""), record.timestamp)
        for record in field.read(user_analytics.ACTIVITY)
    ]
    expected = activity(pairs(EVENTS), users())
    assert len(expected) > 100
    assert Counter(map(repr, map(_sorted, found))) == Counter(map(repr, map(_sorted, expected)))


def _sorted(record: tuple[str, dict[str, Any], int]) -> tuple[Any, ...]:
    return record[0], sorted(record[1].items()), record[2]


def check_pages(field: Field) -> None:
    key = TimeWindowedSerde(StringSerde(), HOUR_MS)
    latest = {}
    for record in field.read(user_analytics.PAGES):
        window = key.deserialize(record.key or b"")
        latest[window.key, window.start] = LongSerde().deserialize(record.value or b"")
    assert latest == Counter((pair.page, pair.timestamp // HOUR_MS * HOUR_MS) for pair in pairs(EVENTS))


def check_enriched(field: Field) -> None:
    found = [json.loads(record.value or b"") for record in field.read(order_enrichment.ENRICHED)]
    unknown = {"name": "UNKNOWN", "tier": "UNKNOWN", "country": "UNKNOWN"}
    expected = [
        {"order_id": order, "customer_id": customer, "amount_cents": 1, **CUSTOMERS.get(customer, unknown)}
        for order, customer in ORDERS.items()
    ]
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


def check_sessions(field: Field) -> None:
    """Stream time is that of a partition, so each partition's sessions are over at their own moment."""
    partition_of = {(record.key or b"").decode(): record.partition for record in field.read(click_sessions.CLICKS)}
    expected = []
    for partition in set(partition_of.values()):
        own = [click for click in CLICKS if partition_of[click.user] == partition]
        expected += summaries(own, until=max(click.timestamp for click in own))
    found = [json.loads(record.value or b"") for record in field.read(click_sessions.SUMMARIES)]
    assert len(expected) > 10
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
