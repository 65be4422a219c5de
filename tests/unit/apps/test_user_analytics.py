"""User analytics against pairs found by comparing every action with every view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from apps import user_analytics
from millrace.dsl import StreamsBuilder
from millrace.serdes import LongSerde, StringSerde, TimeWindowedSerde
from millrace.testing import TestRecord, TopologyTestDriver
from tests.user_activity import HOUR_MS, START, activity, pairs, random_events, users


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    builder = StreamsBuilder()
    user_analytics.build(builder)
    with TopologyTestDriver(builder.build(ensure_explicit_naming=True)) as opened:
        yield opened


def pipe_users(driver: TopologyTestDriver, table: dict[str, dict[str, Any]]) -> None:
    topic = driver.create_input_topic(user_analytics.USERS, StringSerde(), user_analytics.USER)
    topic.pipe_batch([TestRecord(user, row, START) for user, row in table.items()])


def read_activity(driver: TopologyTestDriver) -> list[tuple[str, dict[str, Any], int]]:
    topic = driver.create_output_topic(user_analytics.ACTIVITY, StringSerde(), user_analytics.ACTIVE)
    return [(record.key, record.value, record.timestamp or 0) for record in topic.read_records()]


@pytest.mark.parametrize("seed", range(6))
def test_each_action_meets_every_view_of_its_user_within_ten_minutes_before_it(
    driver: TopologyTestDriver, seed: int
) -> None:
    events = random_events(seed, 400)
    pipe_users(driver, users())
    topics = {
        "view": driver.create_input_topic(user_analytics.VIEWS, StringSerde(), user_analytics.VIEW),
        "action": driver.create_input_topic(user_analytics.ACTIONS, StringSerde(), user_analytics.ACTION),
    }
    for event in events:
        topics[event.kind].pipe_input(event.user, event.value, event.timestamp)

    expected = pairs(events)
    assert len(expected) > 100
    found = read_activity(driver)
    assert Counter(map(freeze, found)) == Counter(map(freeze, activity(expected, users())))
    assert page_counts(driver) == Counter((pair.page, pair.timestamp // HOUR_MS * HOUR_MS) for pair in expected)


def freeze(record: tuple[str, dict[str, Any], int]) -> tuple[Any, ...]:
    user, value, timestamp = record
    return user, tuple(sorted(value.items())), timestamp


def page_counts(driver: TopologyTestDriver) -> dict[tuple[str, int], int]:
    key = TimeWindowedSerde(StringSerde(), HOUR_MS)
    topic = driver.create_output_topic(user_analytics.PAGES, key, LongSerde())
    return {(window.key, window.start): count for window, count in topic.read_key_values()}


def test_the_attention_span_ends_after_exactly_ten_minutes_and_a_later_view_does_not_count(
    driver: TopologyTestDriver,
) -> None:
    views = driver.create_input_topic(user_analytics.VIEWS, StringSerde(), user_analytics.VIEW)
    actions = driver.create_input_topic(user_analytics.ACTIONS, StringSerde(), user_analytics.ACTION)
    views.pipe_input("u1", {"view_id": "v1", "page": "/a"}, START)
    views.pipe_input("u1", {"view_id": "v2", "page": "/b"}, START + 600_001)
    actions.pipe_input("u1", {"action_id": "a1", "kind": "click"}, START + 600_000)
    actions.pipe_input("u1", {"action_id": "a2", "kind": "click"}, START + 600_001)
    assert [(value["action_id"], value["view_id"], timestamp) for _, value, timestamp in read_activity(driver)] == [
        ("a1", "v1", START + 600_000),
        ("a2", "v2", START + 600_001),
    ]


def test_a_user_who_is_not_known_or_was_deleted_is_unknown(driver: TopologyTestDriver) -> None:
    rows = driver.create_input_topic(user_analytics.USERS, StringSerde(), user_analytics.USER)
    views = driver.create_input_topic(user_analytics.VIEWS, StringSerde(), user_analytics.VIEW)
    actions = driver.create_input_topic(user_analytics.ACTIONS, StringSerde(), user_analytics.ACTION)
    views.pipe_input("u1", {"view_id": "v1", "page": "/a"}, START)
    for number, row in enumerate([None, {"name": "Ada", "country": None}, {"name": "Ada", "country": "PT"}, None]):
        rows.pipe_input("u1", row, START)
        actions.pipe_input("u1", {"action_id": f"a{number}", "kind": "click"}, START + number)
    assert [(value["name"], value["country"]) for _, value, _ in read_activity(driver)] == [
        ("UNKNOWN", "UNKNOWN"),
        ("Ada", "UNKNOWN"),
        ("Ada", "PT"),
        ("UNKNOWN", "UNKNOWN"),
    ]
