"""Click sessions against a model that sorts the clicks and cuts them at the gaps."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from apps import click_sessions
from millrace.dsl import StreamsBuilder
from millrace.metrics.definitions import DropReason
from millrace.serdes import StringSerde
from millrace.testing import TestRecord, TopologyTestDriver
from tests.click_sessions import MINUTE_MS, START, Click, random_clicks, summaries


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    builder = StreamsBuilder()
    click_sessions.build(builder)
    with TopologyTestDriver(builder.build(ensure_explicit_naming=True)) as opened:
        yield opened


def click(driver: TopologyTestDriver, clicks: Sequence[Click], cuts: random.Random | None = None) -> None:
    topic = driver.create_input_topic(click_sessions.CLICKS, StringSerde(), click_sessions.CLICK)
    records = [
        TestRecord(each.user, {"page": "/", "purchase_cents": each.purchase_cents}, each.timestamp) for each in clicks
    ]
    while records:
        size = cuts.randint(1, 40) if cuts else 1
        topic.pipe_batch(records[:size])
        records = records[size:]


def written(driver: TopologyTestDriver) -> list[dict[str, Any]]:
    topic = driver.create_output_topic(click_sessions.SUMMARIES, StringSerde(), click_sessions.SUMMARY)
    found = []
    for record in topic.read_records():
        assert record.key == record.value["user"]
        assert record.timestamp == record.value["end"]
        found.append(record.value)
    return sorted(found, key=lambda summary: (summary["user"], summary["start"]))


@pytest.mark.parametrize("seed", range(8))
def test_each_session_is_summed_up_once_when_it_is_over(driver: TopologyTestDriver, seed: int) -> None:
    clicks = random_clicks(seed, 500)
    click(driver, clicks, random.Random(seed) if seed % 2 else None)
    latest = max(each.timestamp for each in clicks)
    expected = summaries(clicks, until=latest)
    assert written(driver) == expected
    assert len(expected) > 10
    last = Click("u9", latest + 120 * MINUTE_MS)
    click(driver, [last])
    assert written(driver) == [one for one in summaries(clicks, until=last.timestamp) if one not in expected]
    assert not driver.dropped


def test_a_session_is_over_only_after_the_gap_and_the_grace(driver: TopologyTestDriver) -> None:
    click(driver, [Click("u1", START, 5), Click("u2", START + 35 * MINUTE_MS)])
    assert written(driver) == []
    click(driver, [Click("u2", START + 35 * MINUTE_MS + 1)])
    assert [(one["user"], one["start"], one["end"], one["clicks"]) for one in written(driver)] == [
        ("u1", START, START, 1)
    ]


def test_a_click_that_comes_after_its_session_could_be_summed_up_is_dropped(driver: TopologyTestDriver) -> None:
    click(driver, [Click("u1", START), Click("u2", START + 40 * MINUTE_MS), Click("u1", START + MINUTE_MS)])
    assert driver.dropped == {DropReason.LATE: 1}
    assert [one["clicks"] for one in written(driver)] == [1]


def test_a_click_between_two_sessions_makes_them_one(driver: TopologyTestDriver) -> None:
    minutes = (0, 34, 17, 120)
    click(driver, [Click("u1", START + minute * MINUTE_MS) for minute in minutes])
    assert [(one["start"], one["end"], one["clicks"]) for one in written(driver)] == [
        (START, START + 34 * MINUTE_MS, 3)
    ]
