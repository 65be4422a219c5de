"""The preflight against a real broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from millrace.errors import PreflightError
from millrace.install.application import Application
from millrace.install.home import Home
from millrace.install.record import read_record
from millrace.install.spec import ApplicationSpec
from millrace.kafka.admin import KafkaAdmin
from millrace.launch import preflight
from millrace.operations.topics import create_topics, missing_topics
from millrace.supervise import deploy


def spec(name: str, bootstrap_servers: str, state: Path, **changes: Any) -> ApplicationSpec:
    document = {
        "name": name,
        "module": "apps.fraud_detection:build",
        "config": {
            "bootstrap.servers": bootstrap_servers,
            "state.dir": str(state),
            "errors.dead.letter.queue.topic.name": f"{name}-dead-letters",
        },
        "topics": [
            {"name": "payments", "partitions": 2},
            {"name": "fraud-alerts", "partitions": 2},
            {"name": f"{name}-dead-letters"},
        ],
        **changes,
    }
    return ApplicationSpec.model_validate(document)


def failed(checked: ApplicationSpec) -> dict[str, str]:
    return {check.name: check.text for check in preflight(checked).failed}


def test_an_application_that_fits_passes_and_its_topics_are_created_once(
    bootstrap_servers: str, unique: str, tmp_path: Path
) -> None:
    fits = spec(unique, bootstrap_servers, tmp_path)
    assert failed(fits) == {}
    assert f"{unique}-dead-letters" in create_topics(fits)
    assert missing_topics(fits) == ()
    assert create_topics(fits) == ()
    assert failed(fits) == {}


def test_every_problem_is_reported_at_once(bootstrap_servers: str, unique: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    wrong = spec(
        unique,
        bootstrap_servers,
        tmp_path / "file",
        config={
            "bootstrap.servers": bootstrap_servers,
            "state.dir": str(tmp_path / "file" / "state"),
            "replication.factor": 3,
            "transaction.timeout.ms": 2_000_000_000,
            "errors.dead.letter.queue.topic.name": f"{unique}-nowhere",
        },
        topics=[],
        preflight={"least_free_disk_mb": 1 << 40},
    )
    problems = failed(wrong)
    assert {"state directory", "disk space", "output topics", "replication", "transaction timeout"} <= set(problems)
    assert f"{unique}-nowhere" in problems["output topics"]


def test_a_live_consumer_in_the_group_is_found(bootstrap_servers: str, unique: str, tmp_path: Path) -> None:
    fits = spec(unique, bootstrap_servers, tmp_path)
    create_topics(fits)
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": unique, "client.id": "a-console"})
    try:
        consumer.subscribe([f"{unique}-dead-letters"])
        while not consumer.assignment():
            consumer.poll(0.1)
        assert "a-console" in failed(fits)["group members"]
    finally:
        consumer.close()
    assert "group members" not in failed(fits)


def test_a_changelog_of_a_store_that_is_gone_is_named(bootstrap_servers: str, unique: str, tmp_path: Path) -> None:
    fits = spec(unique, bootstrap_servers, tmp_path)
    create_topics(spec(unique, bootstrap_servers, tmp_path, topics=[{"name": f"{unique}-old-store-changelog"}]))
    try:
        assert f"{unique}-old-store-changelog" in failed(fits)["state"]
        assert failed(spec(unique, bootstrap_servers, tmp_path, upgrade_mode="stateless")) == {}
    finally:
        KafkaAdmin(bootstrap_servers).delete_topics([f"{unique}-old-store-changelog"])


def test_a_broker_that_does_not_answer_is_named_within_the_limit(unique: str, tmp_path: Path) -> None:
    problems = failed(spec(unique, "localhost:1", tmp_path, module="apps.fraud_detection:no_such_function"))
    assert "localhost:1" in problems["broker"]
    assert "no_such_function" in problems["topology"]


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_deployment_that_fails_its_preflight_starts_nothing(
    unique: str, tmp_path: Path, dry_run: bool, write: Callable[[ApplicationSpec], Home]
) -> None:
    home = write(spec(unique, "localhost:1", tmp_path, topics=[]))
    if dry_run:
        plan = deploy(Application(home, unique), dry_run=True)
        assert any(step.startswith("FAILED broker") for step in plan.steps)
    else:
        with pytest.raises(PreflightError, match="broker: No"):
            deploy(Application(home, unique))
    assert read_record(home.application(unique)) is None


@pytest.fixture
def write(tmp_path: Path) -> Callable[[ApplicationSpec], Home]:
    def write_spec(written: ApplicationSpec) -> Home:
        home = Home(root=tmp_path / "home", specs=tmp_path / "apps")
        home.specs.mkdir()
        home.spec_path(written.name).write_text(written.model_dump_json())
        return home

    return write_spec
