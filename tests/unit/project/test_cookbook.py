"""The recipes of docs/cookbook.md give what they promise."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from millrace.dsl import StreamsBuilder
from millrace.metrics import SilentDrop
from millrace.serdes import JsonSerde, LongSerde, StringSerde
from millrace.testing import TestRecord, TopologyTestDriver
from tests.unit.project.pages import ROOT, blocks

BERLIN = ZoneInfo("Europe/Berlin")


def recipe(first_words: str) -> dict[str, Any]:
    """The names of the recipe whose code has these words."""
    [text] = [text for text in blocks(ROOT / "docs" / "cookbook.md", "python") if first_words in text]
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, "cookbook.md", "exec"), names)
    return names


def at(local: str, *, fold: int = 0) -> int:
    """The milliseconds of a time on a clock in Berlin; ``fold=1`` is the second of two of that name."""
    return int(datetime.fromisoformat(local).replace(tzinfo=BERLIN, fold=fold).timestamp()) * 1000


def test_there_is_a_test_for_every_recipe() -> None:
    assert len(blocks(ROOT / "docs" / "cookbook.md", "python")) == 1


def test_days_of_23_24_and_25_hours_have_the_totals_of_their_local_date() -> None:
    builder = StreamsBuilder()
    recipe("def local_day")["build"](builder)
    sales = [
        # Daylight saving begins on 29 March: a day of 23 hours, from 23:00 to 22:00 UTC.
        ("2026-03-28T23:59:59", 0, 1),
        ("2026-03-29T00:00:00", 0, 2),
        ("2026-03-29T03:00:00", 0, 4),
        ("2026-03-29T23:59:59", 0, 8),
        ("2026-03-30T00:00:00", 0, 16),
        ("2026-03-30T23:59:59", 0, 32),
        # It ends on 25 October: half past two comes twice, in a day of 25 hours.
        ("2026-10-25T00:00:00", 0, 64),
        ("2026-10-25T02:30:00", 0, 128),
        ("2026-10-25T02:30:00", 1, 256),
        ("2026-10-25T23:59:59", 0, 512),
        ("2026-10-26T00:00:00", 0, 1024),
    ]
    records = [TestRecord("shop", {"cents": cents}, at(local, fold=fold)) for local, fold, cents in sales]
    assert at("2026-10-25T23:59:59") - at("2026-10-25T00:00:00") == 25 * 3_600_000 - 1000
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("sales", StringSerde(), JsonSerde())
        topic.pipe_batch([*records, TestRecord(None, {"cents": 1}, records[-1].timestamp)])
        topic.pipe_batch([TestRecord("other", {"cents": 7}, at("2026-12-01T12:00:00"))])
        assert driver.create_output_topic("sales-per-day", StringSerde(), LongSerde()).read_key_values() == [
            ("shop/2026-03-28", 1),
            ("shop/2026-03-29", 2 + 4 + 8),
            ("shop/2026-03-30", 16 + 32),
            ("shop/2026-10-25", 64 + 128 + 256 + 512),
            ("shop/2026-10-26", 1024),
        ]
        assert driver.silently_dropped == {SilentDrop.NULL_KEY: 1}


def test_a_late_sale_within_the_grace_period_counts_for_its_own_day() -> None:
    builder = StreamsBuilder()
    recipe("def local_day")["build"](builder)
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("sales", StringSerde(), JsonSerde())
        for local, cents in (("2026-06-01T10:00:00", 1), ("2026-06-02T00:05:00", 2), ("2026-06-01T23:58:00", 4)):
            topic.pipe_input("shop", {"cents": cents}, at(local))
        topic.pipe_input("shop", {"cents": 8}, at("2026-06-09T00:00:00"))
        found = driver.create_output_topic("sales-per-day", StringSerde(), LongSerde()).read_key_values()
        assert found == [("shop/2026-06-01", 5), ("shop/2026-06-02", 2)]
