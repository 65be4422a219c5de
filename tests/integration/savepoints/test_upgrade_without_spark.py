"""Upgrades of an application whose driver is the fake job, and whose tasks run in this process: state without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from millrace import operations, supervise
from millrace.install.application import Application
from millrace.install.record import read_record
from millrace.install.spec import load_spec
from millrace.kafka.offsets import committed_offsets
from millrace.operations.savepoints import SavepointState, list_savepoints
from millrace.operations.savepoints.location import target_of
from tests.integration.savepoints.conftest import OUTPUTS, Installation
from tests.integration.savepoints.processing import process

FAKE_JOB = Path(__file__).resolve().parents[2] / "airflow" / "fake_job.py"
BROKEN = ["{python}", "-c", "import sys; sys.exit('the new version does not work')"]


def specify(world: Installation, name: str, module: str, **changes: Any) -> None:
    """Writes a specification whose driver is the fake job."""
    path = world.home.spec_path(name)
    document = yaml.safe_load(path.read_text())
    document["module"] = f"tests.integration.savepoints.topologies:{module}"
    document["launcher"] = {**document["launcher"], "command": ["{python}", str(FAKE_JOB), "{run_directory}"]}
    document["preflight"] = {"enabled": False}
    document.update(changes)
    path.write_text(yaml.safe_dump(document))


def work(world: Installation, name: str) -> None:
    """Processes what there is, as the application's specification says."""
    target = target_of(load_spec(world.home.spec_path(name)))
    process(target.config, target.topology)


@pytest.fixture
def world(make_installation: Callable[..., Installation]) -> tuple[Installation, str]:
    """An application that is good, has processed 300 records, and is stopped."""
    world = make_installation()
    name = world.specify()
    specify(world, name, "counting")
    supervise.deploy(Application(world.home, name))
    supervise.wait_until_ready(Application(world.home, name))
    operations.stop(Application(world.home, name))
    world.send(300)
    work(world, name)
    return world, name


def test_a_stateless_upgrade_goes_on_where_the_input_was_with_empty_stores(world: tuple[Installation, str]) -> None:
    installation, name = world
    specify(installation, name, "counting_without_windows", upgrade_mode="stateless")
    topic_partitions = [(f"{installation.prefix}-in", number) for number in range(2)]
    before = {
        topic_partition: commit.offset
        for topic_partition, commit in committed_offsets(installation.admin, name, topic_partitions).items()
    }
    outcome = supervise.deploy(Application(installation.home, name))
    assert outcome.action == "upgrade", outcome.text
    after = {
        topic_partition: commit.offset
        for topic_partition, commit in committed_offsets(installation.admin, name, topic_partitions).items()
    }
    assert after == before
    changelogs = [f"{name}-{store}-changelog" for store in ("by-key", "by-window", "by-bucket")]
    assert installation.admin.describe_topics(changelogs) == {}
    operations.stop(Application(installation.home, name))
    sent = len(installation.sent)
    installation.send(100)
    work(installation, name)
    since = dict(Counter(record.key for record in installation.sent[sent:]))
    assert installation.last_counts("by-key") == since


@pytest.mark.parametrize("writes", [False, True])
def test_a_rollback_restores_the_savepoint_only_where_the_new_version_wrote_what_the_old_one_does_not_know(
    world: tuple[Installation, str], writes: bool
) -> None:
    installation, name = world
    broken = {"launcher": {"command": BROKEN}} if not writes else {}
    specify(installation, name, "counting_with_one_more", upgrade_mode="savepoint", **broken)
    outcome = supervise.deploy(Application(installation.home, name), rollback_on_failure=not writes)
    (savepoint,) = list_savepoints(Application(installation.home, name))
    assert savepoint.state is SavepointState.COMPLETED
    if writes:
        supervise.wait_until_ready(Application(installation.home, name))
        record = read_record(installation.home.application(name))
        assert record is not None
        assert record.savepoint == savepoint.name
        operations.stop(Application(installation.home, name))
        installation.send(100)
        work(installation, name)
        outcome = supervise.rollback(Application(installation.home, name))
    assert outcome.action == "rolled_back", outcome.text
    assert ("on savepoint" in outcome.text) == writes
    operations.stop(Application(installation.home, name))
    specify(installation, name, "counting")
    installation.send(100)
    work(installation, name)
    for output in OUTPUTS:
        assert installation.last_counts(output) == installation.expected(output), output
