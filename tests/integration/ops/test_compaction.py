"""Compaction on a broker whose cleaner runs: logs get smaller, and settings are always put back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from millrace.kafka.broker import EmbeddedBroker
from millrace.kafka.broker_tools import java_client_settings
from millrace.kafka.log_dirs import log_bytes
from millrace.ops.audit import audit
from millrace.ops.compaction import CompactionOptions, compact
from millrace.ops.compaction.settings import TEMPORARY
from millrace.ops.operations import abandon, resume, unfinished_operation
from millrace.task.crash_points import DIRECTORY_VARIABLE
from tests.application import PREFIX_VARIABLE, ROOT
from tests.integration.ops.compacting import OPTIONS
from tests.integration.ops.worked import Worked
from tests.records import Record, produce, read_topic

pytestmark = pytest.mark.timeout(900)
STEPS = ("lower-settings", "roll-segments", "wait-for-cleaner", "settings-back", "stores", "check")
NOW = int(time.time() * 1000)
"""The broker deletes what is older than the retention of a windowed changelog."""


@pytest.fixture(scope="module")
def cleaning_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker of its own: the shared one's cleaner never runs."""
    properties = {"log.cleaner.backoff.ms": "500", "log.retention.ms": "-1"}
    broker = EmbeddedBroker(tmp_path_factory.mktemp("broker"), properties=properties)
    broker.start(timeout_s=240)
    yield broker.bootstrap_servers
    broker.kill()


@pytest.fixture
def worked(cleaning_broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worked:
    prefix = f"c{uuid4().hex[:8]}"
    monkeypatch.setenv(PREFIX_VARIABLE, prefix)
    application = Worked(cleaning_broker, prefix, tmp_path, "counting", ["in"])
    application.send("in", [Record(f"key-{n % 40}".encode(), b"x", NOW + n) for n in range(400)])
    application.work()
    for name in application.changelogs():
        logged = read_topic(cleaning_broker, name)
        same = [Record(each.key, each.value, each.timestamp) for each in logged]
        produce(cleaning_broker, name, same * 300)
    application.send("in", [Record(b"key-0", b"x", NOW + 1_000)])
    application.work()
    return application


def settings_of(worked: Worked) -> dict[str, dict[str, str]]:
    return {topic: worked.admin.own_topic_settings(topic) for topic in worked.changelogs()}


def sizes_of(worked: Worked) -> dict[str, int]:
    sizes = log_bytes(worked.config.bootstrap_servers, worked.changelogs())
    return {topic: size for (topic, _), size in sizes.items()}


def test_superfluous_records_leave_the_changelogs_and_the_stores_still_equal_them(worked: Worked) -> None:
    settings, before = settings_of(worked), sizes_of(worked)
    outcome = compact(worked.home, worked.name, OPTIONS, reason="a test")
    after = sizes_of(worked)
    assert set(outcome.results["check"]["topics"]) == set(worked.changelogs())
    for topic in worked.changelogs():
        assert outcome.results["check"]["topics"][topic]["before"] == before[topic]
        assert after[topic] < before[topic] / 2
    assert outcome.results["wait-for-cleaner"] == {"cleaned": True, "waiting": []}
    assert settings_of(worked) == settings
    assert set(outcome.results["stores"]["tasks"]["0_0"]["bytes_after"]) == {"counts", "windows"}
    assert audit(worked.home, worked.name).agrees
    # It goes on as if nothing had been.
    worked.send("in", [Record(b"key-1", b"x", NOW + 2_000)])
    worked.work()
    assert audit(worked.home, worked.name).agrees
    # What is clean is left alone.
    again = compact(worked.home, worked.name, OPTIONS, reason="a test")
    assert again.results["check"]["topics"] == {}


def test_a_dry_run_changes_nothing(worked: Worked) -> None:
    settings, before = settings_of(worked), sizes_of(worked)
    outcome = compact(worked.home, worked.name, OPTIONS, reason="a test", dry_run=True)
    assert len(outcome.steps) == len(STEPS)
    assert "superfluous" in outcome.steps[0]
    assert (settings_of(worked), sizes_of(worked)) == (settings, before)
    assert unfinished_operation(worked.home.application(worked.name)) is None


def killed_at(point: str, worked: Worked, tmp_path: Path) -> None:
    points = tmp_path / "points"
    points.mkdir()
    (points / point).write_text("")
    process = subprocess.run(
        [sys.executable, "-m", "tests.integration.ops.compacting", worked.home.root, worked.home.specs, worked.name],
        cwd=ROOT,
        env={**os.environ, DIRECTORY_VARIABLE: str(points), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=False,
        timeout=240,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()


@pytest.mark.parametrize("moment", ["begins", "ends"])
@pytest.mark.parametrize("step", STEPS)
def test_a_compaction_that_was_killed_at_any_step_puts_the_settings_back_when_it_goes_on(
    worked: Worked, tmp_path: Path, step: str, moment: str
) -> None:
    settings, before = settings_of(worked), sizes_of(worked)
    killed_at(f"compact-{step}-{moment}", worked, tmp_path)
    resume(worked.home, worked.name)
    assert settings_of(worked) == settings
    assert all(size < before[topic] / 2 for topic, size in sizes_of(worked).items())
    assert audit(worked.home, worked.name).agrees


def test_settings_that_an_abandoned_compaction_left_are_put_back_by_the_next_one(
    worked: Worked, tmp_path: Path
) -> None:
    topic = worked.changelog("counts")
    worked.admin.change_topic_settings(topic, {"min.cleanable.dirty.ratio": "0.4"})
    settings = settings_of(worked)
    killed_at("compact-lower-settings-ends", worked, tmp_path)
    abandon(worked.home, worked.name, reason="a test")
    assert settings_of(worked)[topic]["min.cleanable.dirty.ratio"] == TEMPORARY["min.cleanable.dirty.ratio"]
    outcome = compact(worked.home, worked.name, CompactionOptions(changelogs=False, stores=False), reason="a test")
    assert outcome.steps[0].startswith("Put back what an earlier compaction left")
    assert settings_of(worked) == settings


def test_what_the_cleaner_did_not_do_in_time_is_said(worked: Worked) -> None:
    settings = settings_of(worked)
    options = CompactionOptions(least_bytes=10_000, budget_s=0.001, stores=False)
    outcome = compact(worked.home, worked.name, options, reason="a test")
    assert outcome.results["wait-for-cleaner"]["cleaned"] == (not outcome.results["wait-for-cleaner"]["waiting"])
    assert settings_of(worked) == settings


def test_settings_of_the_client_reach_the_brokers_tool() -> None:
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "me",
        "sasl.password": 'a"b',
        "ssl.ca.location": "/ca.pem",
    }
    assert java_client_settings(settings) == {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="me" password="a\\"b";',
    }
