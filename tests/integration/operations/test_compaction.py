"""Compaction on a broker whose cleaner runs: logs get smaller, and settings are always put back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from millrace.embedded.broker import EmbeddedBroker
from millrace.home import HOME_VARIABLE
from millrace.install.application import Application
from millrace.install.home import SPECS_VARIABLE
from millrace.kafka.offsets import End, end_offsets
from millrace.operations import abandon, resume, unfinished_operation
from millrace.operations.audit import audit
from millrace.operations.compaction import CompactionOptions, compact
from millrace.operations.compaction.settings import TEMPORARY
from tests import prepared
from tests.application import PREFIX_VARIABLE
from tests.integration.operations.compacting import OPTIONS, compact_now
from tests.integration.operations.worked import Worked
from tests.records import Record, produce, read_topic
from tests.waiting import eventually

STEPS = ("lower-settings", "roll-segments", "wait-for-cleaner", "settings-back", "stores", "check")
NOW = int(time.time() * 1000)
"""The broker deletes what is older than the retention of a windowed changelog."""


@pytest.fixture(scope="module")
def cleaning_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker of its own: the shared one's cleaner never runs."""
    properties = {"log.cleaner.backoff.ms": "500", "log.retention.ms": "-1"}
    broker = EmbeddedBroker(tmp_path_factory.mktemp("broker"), properties=properties)
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def worked(cleaning_broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worked:
    prefix = f"c{uuid4().hex[:8]}"
    monkeypatch.setenv(PREFIX_VARIABLE, prefix)
    application = Worked(cleaning_broker.bootstrap_servers, prefix, tmp_path, "counting", ["in"])
    application.send("in", [Record(f"key-{n % 40}".encode(), b"x", NOW + n) for n in range(400)])
    application.work()
    soil(application, key=b"key-0", at=NOW + 1_000)
    return application


def soil(worked: Worked, *, key: bytes, at: int) -> None:
    """Repeats in each changelog what is there until most of it is superfluous; then the application goes on."""
    servers = worked.config.bootstrap_servers
    for name in worked.changelogs():
        logged = {each.key: Record(each.key, each.value, each.timestamp) for each in read_topic(servers, name)}
        produce(servers, name, list(logged.values()) * 300)
    worked.send("in", [Record(key, b"x", at)])
    worked.work()


def settings_of(worked: Worked) -> dict[str, dict[str, str]]:
    return {topic: worked.admin.own_topic_settings(topic) for topic in worked.changelogs()}


def sizes_of(worked: Worked, broker: EmbeddedBroker) -> dict[str, int]:
    """Bytes of the changelogs' segments, once the marker of each transaction is written: commits do not wait for it."""
    topic_partitions = [(topic, 0) for topic in worked.changelogs()]
    eventually(
        lambda: (
            end_offsets(worked.admin, topic_partitions)
            == end_offsets(worked.admin, topic_partitions, End.HIGH_WATERMARK)
        ),
        True,
    )
    return {
        topic: sum(segment.stat().st_size for segment in broker.directory.rglob(f"{topic}-0/*.log"))
        for topic in worked.changelogs()
    }


def test_superfluous_records_leave_the_changelogs_and_the_stores_still_equal_them(
    worked: Worked, cleaning_broker: EmbeddedBroker
) -> None:
    settings, before = settings_of(worked), sizes_of(worked, cleaning_broker)
    outcome = compact(Application(worked.home, worked.name), OPTIONS, reason="a test")
    after = sizes_of(worked, cleaning_broker)
    assert set(outcome.results["check"]["topics"]) == set(worked.changelogs())
    for topic in worked.changelogs():
        assert outcome.results["check"]["topics"][topic]["before"] == before[topic]
        assert after[topic] < before[topic] / 2
    assert outcome.results["wait-for-cleaner"] == {"cleaned": True, "waiting": []}
    assert settings_of(worked) == settings
    assert set(outcome.results["stores"]["tasks"]["0_0"]["bytes_after"]) == {"counts", "windows"}
    assert audit(Application(worked.home, worked.name)).agrees
    # It goes on as if nothing had been.
    worked.send("in", [Record(b"key-1", b"x", NOW + 2_000)])
    worked.work()
    assert audit(Application(worked.home, worked.name)).agrees
    # What is clean is left alone.
    again = compact(Application(worked.home, worked.name), OPTIONS, reason="a test")
    assert again.results["check"]["topics"] == {}


def test_a_dry_run_changes_nothing(worked: Worked, cleaning_broker: EmbeddedBroker) -> None:
    settings, before = settings_of(worked), sizes_of(worked, cleaning_broker)
    outcome = compact(Application(worked.home, worked.name), OPTIONS, reason="a test", dry_run=True)
    assert len(outcome.steps) == len(STEPS)
    assert "superfluous" in outcome.steps[0]
    assert (settings_of(worked), sizes_of(worked, cleaning_broker)) == (settings, before)
    assert unfinished_operation(worked.home.application(worked.name)) is None


@pytest.mark.kills
def test_a_compaction_that_was_killed_at_every_step_puts_the_settings_back_once_it_was_resumed(
    worked: Worked, cleaning_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    settings, before = settings_of(worked), sizes_of(worked, cleaning_broker)
    installation = {HOME_VARIABLE: str(worked.home.root), SPECS_VARIABLE: str(worked.home.specs)}
    begin = (compact_now, worked.home, worked.name)
    prepared.killed_at_every_step(
        "compact", STEPS, worked.name, begin, environment=installation, directory=tmp_path / "points"
    )
    resume(Application(worked.home, worked.name))
    assert settings_of(worked) == settings
    after = sizes_of(worked, cleaning_broker)
    assert all(after[topic] < before[topic] / 2 for topic in before)
    assert audit(Application(worked.home, worked.name)).agrees


@pytest.mark.kills
def test_settings_that_an_abandoned_compaction_left_are_put_back_by_the_next_one(
    worked: Worked, tmp_path: Path
) -> None:
    topic = worked.changelog("counts")
    worked.admin.change_topic_settings(topic, {"min.cleanable.dirty.ratio": "0.4"})
    settings = settings_of(worked)
    prepared.killed_at(
        "compact-lower-settings-ends", compact_now, worked.home, worked.name, environment={}, directory=tmp_path
    )
    abandon(Application(worked.home, worked.name), reason="a test")
    assert settings_of(worked)[topic]["min.cleanable.dirty.ratio"] == TEMPORARY["min.cleanable.dirty.ratio"]
    outcome = compact(
        Application(worked.home, worked.name), CompactionOptions(changelogs=False, stores=False), reason="a test"
    )
    assert outcome.steps[0].startswith("Put back what an earlier compaction left")
    assert settings_of(worked) == settings


def test_what_the_cleaner_did_not_do_in_time_is_said(worked: Worked) -> None:
    settings = settings_of(worked)
    options = CompactionOptions(least_bytes=10_000, budget_s=0.001, stores=False)
    outcome = compact(Application(worked.home, worked.name), options, reason="a test")
    assert outcome.results["wait-for-cleaner"]["cleaned"] == (not outcome.results["wait-for-cleaner"]["waiting"])
    assert settings_of(worked) == settings
